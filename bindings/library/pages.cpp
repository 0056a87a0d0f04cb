#include "library/pages.hpp"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace dgo {
namespace {

// Code that relocation changed differs from the file.
bool changes_code(const dl_phdr_info& info) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
        const ElfW(Phdr) & segment = info.dlpi_phdr[i];
        if (segment.p_type != PT_DYNAMIC) continue;
        for (auto* entry = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + segment.p_vaddr);
             entry->d_tag != DT_NULL; ++entry)
            if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_TEXTREL)) return true;
    }
    return false;
}

int drop(dl_phdr_info* info, std::size_t, void* wanted) {
    const auto address = reinterpret_cast<std::uintptr_t>(wanted);
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    bool found = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) & segment = info->dlpi_phdr[i];
        const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
        found |= segment.p_type == PT_LOAD && begin <= address && address - begin < segment.p_memsz;
    }
    if (!found) return 0;
    if (changes_code(*info)) return 1;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) & segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD || segment.p_flags & PF_W) continue;
        const std::uintptr_t first = (info->dlpi_addr + segment.p_vaddr + page - 1) / page * page;
        const std::uintptr_t last = (info->dlpi_addr + segment.p_vaddr + segment.p_memsz) / page * page;
        // a hint: where the system does not take it, nothing is lost
        if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    }
    return 1;
}

}  // namespace

void drop_clean_pages(const void* address) noexcept { dl_iterate_phdr(drop, const_cast<void*>(address)); }

}  // namespace dgo
