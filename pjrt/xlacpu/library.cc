#include "library.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

// Only the addresses of these are taken; their headers would be parsed for
// nothing.
extern "C" const char* TF_Version();
namespace tsl {
class Env {
 public:
  static Env* Default();
};
}  // namespace tsl
namespace xla {
class PjRtClient;
struct CpuClientOptions;
absl::StatusOr<std::unique_ptr<PjRtClient>> GetXlaPjrtCpuClient(
    CpuClientOptions options);
}  // namespace xla

namespace xlacpu {
namespace {

constexpr std::string_view kVersion = "2.21.0";
constexpr std::string_view kRequirement =
    "the plugin needs its copies of the libraries of tensorflow-cpu 2.21.0";

// The copies are those that private_library.py makes of that release's
// libraries, which are the same in its wheels for every Python. To move to
// another release, build against it and take the numbers from the error.
struct Record {
  std::string_view name;
  int64_t file_size;
  uint64_t fingerprint;  // of what Fingerprint reads
};
constexpr Record kXla = {"libpjrt_xla_cpu_cc.so", 583059544,
                         0x5df2b34a89384646};
constexpr Record kFramework = {"libpjrt_xla_cpu_framework.so", 51371616,
                               0x6ad429c245641092};

constexpr uintptr_t kPage = 4096;

constexpr uint64_t kPrime = 1099511628211u;

uint64_t Mix(uint64_t hash, const unsigned char* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * kPrime;
  return hash;
}

// Calls `visit(address, size)` for what is loaded of each segment that the
// library at `base` only reads: its code, constants and symbols. Relocations
// write to the others.
template <class Visit>
void ForEachReadOnlySegment(const void* base, Visit visit) {
  const auto* bytes = static_cast<const unsigned char*>(base);
  const auto* header = static_cast<const Elf64_Ehdr*>(base);
  const auto* segments =
      reinterpret_cast<const Elf64_Phdr*>(bytes + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i) {
    const Elf64_Phdr& segment = segments[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    visit(bytes + segment.p_vaddr, size_t{segment.p_filesz});
  }
}

// FNV-1a over the ELF header, the table of segments (every section's growth
// moves them) and pages sampled from all read-only segments. A hash of the whole
// file would cost a second at each start.
uint64_t Fingerprint(const void* base) {
  constexpr size_t kSamples = 64, kSampleSize = kPage;
  const auto* bytes = static_cast<const unsigned char*>(base);
  const auto* header = static_cast<const Elf64_Ehdr*>(base);
  uint64_t hash = Mix(14695981039346656037u, bytes, sizeof *header);
  hash = Mix(hash, bytes + header->e_phoff,
             header->e_phnum * sizeof(Elf64_Phdr));
  ForEachReadOnlySegment(base, [&](const unsigned char* at, size_t size) {
    const size_t step = size / kSamples;
    for (size_t k = 0; step >= kSampleSize && k < kSamples; ++k) {
      hash = Mix(hash, at + k * step, kSampleSize);
    }
  });
  return hash;
}

// A function of each library, by which it is found in the process.
const void* InXla() {
  return reinterpret_cast<const void*>(&xla::GetXlaPjrtCpuClient);
}
const void* InFramework() {
  return reinterpret_cast<const void*>(&tsl::Env::Default);
}

absl::Status CheckFile(const Record& record, const void* symbol) {
  Dl_info info{};
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(kRequirement, "; the file that ", record.name,
                     " was loaded from is not known to the dynamic linker"));
  }
  std::ifstream file(info.dli_fname, std::ios::binary | std::ios::ate);
  const int64_t size = file.tellg();
  if (size < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        kRequirement, "; ", info.dli_fname, " cannot be read any more"));
  }
  if (size != record.file_size) {
    return absl::FailedPreconditionError(absl::StrCat(
        kRequirement, "; ", info.dli_fname, " has ", size,
        " bytes, ", record.name, " of that release has ", record.file_size));
  }
  const uint64_t fingerprint = Fingerprint(info.dli_fbase);
  if (fingerprint != record.fingerprint) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s; %s has the fingerprint %016x, %s of that release has %016x",
        kRequirement, info.dli_fname, fingerprint, record.name,
        record.fingerprint));
  }
  return absl::OkStatus();
}

absl::Status Check() {
  const std::string_view version = TF_Version();
  if (version != kVersion) {
    Dl_info info{};
    dladdr(reinterpret_cast<const void*>(&TF_Version), &info);
    return absl::FailedPreconditionError(absl::StrCat(
        kRequirement, "; ", info.dli_fname ? info.dli_fname : "a library",
        " is TensorFlow ", version));
  }
  absl::Status status = CheckFile(kXla, InXla());
  return status.ok() ? CheckFile(kFramework, InFramework()) : status;
}

}  // namespace

absl::Status CheckLibraries() {
  static const absl::Status* status = new absl::Status(Check());
  return *status;
}

void ReleaseLibraryPages() {
  for (const void* symbol : {InXla(), InFramework()}) {
    Dl_info info{};
    if (dladdr(symbol, &info) == 0) continue;
    ForEachReadOnlySegment(
        info.dli_fbase, [](const unsigned char* at, size_t size) {
          const auto begin = reinterpret_cast<uintptr_t>(at) & -kPage;
          const auto end = reinterpret_cast<uintptr_t>(at + size) & -kPage;
          // Refused where the process has locked its memory: it wants it so.
          madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
        });
  }
}

uint64_t LibraryIdentity() { return kXla.fingerprint; }

std::string_view PlatformVersion() {
  static const std::string* version = new std::string(absl::StrCat(
      "XLA:CPU of tensorflow-cpu ", kVersion, ", build ",
      absl::Hex(LibraryIdentity())));
  return *version;
}

}  // namespace xlacpu
