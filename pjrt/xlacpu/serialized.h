// Byte strings that the C API hands out with a deleter of their own.
#ifndef PJRT_XLACPU_SERIALIZED_H_
#define PJRT_XLACPU_SERIALIZED_H_

#include <string>
#include <utility>

namespace xlacpu {

// Moves `bytes` to the heap and fills the four members that every
// serializing function has: the bytes, their size, the opaque owner, and the
// function that frees the owner.
template <class Opaque>
void HandOut(std::string bytes, const char** data, size_t* size, Opaque** owner,
             void (**deleter)(Opaque*)) {
  auto* kept = new std::string(std::move(bytes));
  *data = kept->data();
  *size = kept->size();
  *owner = reinterpret_cast<Opaque*>(kept);
  *deleter = [](Opaque* p) { delete reinterpret_cast<std::string*>(p); };
}

}  // namespace xlacpu

#endif  // PJRT_XLACPU_SERIALIZED_H_
