#include "library/log_capture.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <string_view>

#include "common/error.hpp"
#include "common/gil.hpp"
#include "library/home_thread.hpp"

namespace dgo {
namespace {

constexpr std::string_view kMark = "onednn_verbose,";

// Lives until the process ends, whose last act is to flush all streams.
struct Tap {
    std::mutex mutex;  // never held while something is written
    std::vector<LogCapture*> captures;
    std::FILE* real = nullptr;
    std::FILE* stream = nullptr;
    // the beginning of an unfinished line; `passed`: it has been passed on
    std::string begun;
    bool passed = false;

    std::string take(std::string_view text);
};

Tap& tap() {
    static Tap* const one = new Tap;
    return *one;
}

void hand_on(std::FILE* file, std::string_view text) {
    if (text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), file);
    // the printing thread has flushed our stream, or ended a line
    std::fflush(file);
}

// Keeps the lines of the log; returns the other lines, to be passed on.
std::string Tap::take(std::string_view text) {
    std::string rest;
    while (!text.empty()) {
        const auto end = text.find('\n');
        const bool whole = end != std::string_view::npos;
        begun += text.substr(0, whole ? end + 1 : end);
        text.remove_prefix(whole ? end + 1 : text.size());
        const std::string_view head = std::string_view(begun).substr(0, kMark.size());
        const bool log = !passed && !captures.empty() && head == kMark.substr(0, head.size());
        if (log && !whole) continue;
        const bool kept = log && head.size() == kMark.size();
        if (kept)
            for (LogCapture* const capture : captures)
                capture->lines.emplace_back(home_thread::caller(), begun.substr(0, begun.size() - 1));
        const auto passes_on = [](const LogCapture* capture) { return capture->pass_on; };
        if (!kept || std::any_of(captures.begin(), captures.end(), passes_on)) rest += begun;
        passed = !whole;
        begun.clear();
    }
    return rest;
}

#ifdef __GLIBC__
constexpr bool kAssignable = true;  // says its manual

void point_stdout_at(std::FILE* file) { __atomic_store_n(&stdout, file, __ATOMIC_RELEASE); }

ssize_t write_to_tap(void*, const char* data, std::size_t size) {
    std::string rest;
    std::FILE* real = nullptr;
    try {
        const std::lock_guard lock(tap().mutex);
        real = tap().real;
        rest = tap().take({data, size});
    } catch (...) {
        return 0;  // an error of the stream: no memory for the line
    }
    hand_on(real, rest);
    return static_cast<ssize_t>(size);
}

std::FILE* open_stream() {
    static char buffer[1 << 14];
    cookie_io_functions_t functions = {};
    functions.write = &write_to_tap;
    std::FILE* const stream = fopencookie(nullptr, "w", functions);
    // a child of fork() prints without a capture
    const auto lock = [] { tap().mutex.lock(); };
    const auto unlock = [] { tap().mutex.unlock(); };
    const auto reset = [] {
        if (stdout == tap().stream) point_stdout_at(tap().real);
        tap().captures.clear();
        tap().begun.clear();
        tap().mutex.unlock();
    };
    if (!stream || pthread_atfork(lock, unlock, reset) != 0)
        fail(ErrorKind::error, "the library's log cannot be read: out of memory");
    std::setvbuf(stream, buffer, _IOLBF, sizeof buffer);
    return stream;
}
#else
constexpr bool kAssignable = false;

void point_stdout_at(std::FILE*) {}
std::FILE* open_stream() { return nullptr; }
#endif

}  // namespace

LogCapture::LogCapture(bool pass_on) : pass_on(pass_on) {
    if (!kAssignable) fail(ErrorKind::unsupported, "the library's log can be read only where the C library is glibc");
    Tap& shared = tap();
    const std::lock_guard lock(shared.mutex);
    if (!shared.stream) shared.stream = open_stream();
    shared.captures.push_back(this);
    if (stdout == shared.stream) return;
    shared.real = stdout;
    point_stdout_at(shared.stream);
}

void LogCapture::stop() {
    const ReleaseGilIfHeld release;  // who reads our standard output may be a thread of Python
    Tap& shared = tap();
    std::fflush(shared.stream);
    std::string rest;
    {
        const std::lock_guard lock(shared.mutex);
        const auto at = std::find(shared.captures.begin(), shared.captures.end(), this);
        if (at == shared.captures.end()) return;
        shared.captures.erase(at);
        if (!shared.captures.empty()) return;
        if (stdout == shared.stream) point_stdout_at(shared.real);
        rest = std::exchange(shared.begun, {});
        shared.passed = false;
    }
    hand_on(shared.real, rest);
    std::fflush(shared.stream);  // of those who took the pointer before
}

}  // namespace dgo
