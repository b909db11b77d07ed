// What newer headers of the C++ library ask of it, for systems whose library is
// as old as that of GCC 8 (manylinux_2_28). All of it stays in this library.

#include <ios>
#include <new>
#include <sstream>

// glibc 2.32 has it, to tell shared_ptr that the process has one thread, which
// saves it atomic operations. This one says that there may be more.
extern "C" {
__attribute__((visibility("hidden"))) extern char __libc_single_threaded;
char __libc_single_threaded = 0;
}

namespace std {
// GCC 11's; called for an array whose size is negative or too large.
void __throw_bad_array_new_length() {
  throw bad_array_new_length();
}
}  // namespace std

// GCC 9's constructor of std::stringstream without arguments, by the one with a
// mode, which is as old as the class.
extern "C" __attribute__((visibility("hidden"))) void DefaultStringstream(
    void* self) asm("_ZNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEC1Ev");
void DefaultStringstream(void* self) {
  new (self) std::stringstream(std::ios::in | std::ios::out);
}
