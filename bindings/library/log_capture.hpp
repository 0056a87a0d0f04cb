// Lines of a library's log, taken where C code writes them. While a capture is on, the C variable `stdout` is a stream
// of ours that keeps these lines and hands everything else on; the file descriptor and what Python prints stay as they
// are. No Python inside the callback: any thread may print, with or without the GIL. What is left: glibc's puts reads
// `stdout` twice, so that a thread inside it while a capture starts or ends may print a line twice or torn.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dgo {

// Keeps the lines that the library prints, from now until stop().
class LogCapture {
public:
    explicit LogCapture(bool pass_on);
    ~LogCapture() { stop(); }
    LogCapture(const LogCapture&) = delete;
    LogCapture& operator=(const LogCapture&) = delete;

    void stop();

    const bool pass_on;
    // by the thread that printed it, as the kernel numbers threads
    std::vector<std::pair<std::int64_t, std::string>> lines;
};

}  // namespace dgo
