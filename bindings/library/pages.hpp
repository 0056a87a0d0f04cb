// Frees pages that loading a library leaves resident.
#pragma once

namespace dgo {

// Gives back the pages of the loaded library that `address` lies in which are as its file has them: loading reads tables
// and code all over it that nothing needs again. What runs comes back from the file as it is touched.
void drop_clean_pages(const void* address) noexcept;

}  // namespace dgo
