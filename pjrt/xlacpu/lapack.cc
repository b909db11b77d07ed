#include "lapack.h"

#include <dlfcn.h>

#include <mutex>

#include "absl/strings/str_cat.h"

namespace xlacpu {
namespace {

struct Library {
  std::mutex mu;
  std::string path;        // empty: none
  void* handle = nullptr;  // never closed: programs hold on to its routines
  std::string prefix;      // in front of every name
};

Library& TheLibrary() {
  static Library* library = new Library;
  return *library;
}

std::string SymbolOf(std::string_view prefix, std::string_view routine) {
  return absl::StrCat(prefix, routine, "_");
}

}  // namespace

absl::Status LoadLapack(const std::string& path) {
  Library& library = TheLibrary();
  std::lock_guard<std::mutex> lock(library.mu);
  if (library.path == path) return absl::OkStatus();
  if (!library.path.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the process runs on the LAPACK library ", library.path,
                     ", and cannot change to ", path));
  }
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat(
        "the LAPACK library must be given by its absolute path, not \"", path,
        "\""));
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the LAPACK library does not load: ", dlerror()));
  }
  for (const char* prefix : {"scipy_", ""}) {
    if (dlsym(handle, SymbolOf(prefix, "spotrf").c_str()) == nullptr) continue;
    library.path = path;
    library.handle = handle;
    library.prefix = prefix;
    return absl::OkStatus();
  }
  dlclose(handle);
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is no LAPACK library: it has neither spotrf_ nor ",
                   "scipy_spotrf_"));
}

void* FindLapack(std::string_view routine) {
  Library& library = TheLibrary();
  std::lock_guard<std::mutex> lock(library.mu);
  if (library.handle == nullptr) return nullptr;
  return dlsym(library.handle, SymbolOf(library.prefix, routine).c_str());
}

}  // namespace xlacpu
