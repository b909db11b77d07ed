// Which XLA this process has: it must be the one that the plugin was built on.
#ifndef PJRT_XLACPU_LIBRARY_H_
#define PJRT_XLACPU_LIBRARY_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace xlacpu {

// The plugin calls C++ classes of two libraries that lie beside it, copies of
// those of one release of TensorFlow. Class layouts hold for that build only. The
// copies of another build usually lack a symbol and do not load; with all
// symbols they would corrupt memory, as would a TensorFlow that was loaded with
// RTLD_GLOBAL before. FAILED_PRECONDITION says which file was found and in what
// it differs from the one recorded here. The answer is found once, and kept.
absl::Status CheckLibraries();

// Releases the pages of the two libraries that are only read. Most of them
// were read once, by relocation, by initializers (260 MB) or by a compilation
// (100 MB), and count as the process's memory for as long as they are mapped.
// The page cache keeps them; one that is needed again costs a page fault.
void ReleaseLibraryPages();

// A number that stands for the build of XLA that CheckLibraries accepts.
uint64_t LibraryIdentity();

// What clients and topologies give as the platform's version: XLA's own is
// "cpu", whatever the release.
std::string_view PlatformVersion();

}  // namespace xlacpu

#endif  // PJRT_XLACPU_LIBRARY_H_
