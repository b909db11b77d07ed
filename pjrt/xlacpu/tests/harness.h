// A small test runner over the C API, and wrappers that keep tests short.
//
// The tests know the plugin by its C API alone: they are compiled without XLA's
// C++ headers, and run against any build of the library.
#ifndef PJRT_XLACPU_TESTS_HARNESS_H_
#define PJRT_XLACPU_TESTS_HARNESS_H_

#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "xla/pjrt/c/pjrt_c_api.h"

namespace harness {

extern const PJRT_Api* api;

// Thrown by a failing expectation.
struct Failure {
  std::string what;
};

[[noreturn]] void Fail(const char* file, int line, const std::string& what);

// An error's code and message; code 0 stands for no error. Frees the error.
struct Outcome {
  int code = 0;
  std::string message;
};
Outcome Take(PJRT_Error* error);

// Registers a test under its name. One that is hidden runs only when it is named:
// it is a part that another test starts as a process of its own.
struct Case {
  Case(const char* name, void (*run)(), bool hidden = false);
};

// The plugin's path, as given to this process.
extern std::string plugin_path;

template <class A, class B>
void ExpectEqual(const A& a, const B& b, const char* text, const char* file,
                 int line) {
  if (a == b) return;
  std::ostringstream out;
  out << text << ": " << a << " is not " << b;
  Fail(file, line, out.str());
}

template <class Args>
Args Zeroed(size_t size) {
  Args args{};
  args.struct_size = size;
  return args;
}

// ----- owners: one handle each, freed at the end of the scope

class Event {
 public:
  explicit Event(PJRT_Event* handle = nullptr) : handle_(handle) {}
  Event(Event&& other) noexcept : handle_(other.Release()) {}
  ~Event();
  PJRT_Event* get() const { return handle_; }
  PJRT_Event* Release() { return std::exchange(handle_, nullptr); }
  Outcome Await() const;
  bool IsReady() const;

 private:
  PJRT_Event* handle_;
};

class Buffer {
 public:
  explicit Buffer(PJRT_Buffer* handle = nullptr) : handle_(handle) {}
  Buffer(Buffer&& other) noexcept : handle_(other.Release()) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Buffer();
  PJRT_Buffer* get() const { return handle_; }
  PJRT_Buffer* Release() { return std::exchange(handle_, nullptr); }

  bool IsDeleted() const;
  Outcome Ready() const;
  uintptr_t Pointer() const;
  std::vector<int64_t> Dims() const;
  // The host's copy, in row-major order.
  template <class T>
  std::vector<T> Read() const {
    std::vector<T> data(ByteSize() / sizeof(T));
    ReadBytes(data.data(), data.size() * sizeof(T));
    return data;
  }
  Outcome TryRead(void* data, size_t size) const;

 private:
  size_t ByteSize() const;
  void ReadBytes(void* data, size_t size) const;
  PJRT_Buffer* handle_;
};

class Program {
 public:
  explicit Program(PJRT_LoadedExecutable* handle) : handle_(handle) {}
  Program(Program&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Program();
  PJRT_LoadedExecutable* get() const { return handle_; }

  size_t NumOutputs() const;
  // Runs on the one device the program is compiled for.
  std::vector<Buffer> Run(const std::vector<const Buffer*>& arguments,
                          const std::vector<int64_t>& kept = {}) const;
  Outcome TryRun(const std::vector<const Buffer*>& arguments,
                 std::vector<Buffer>& outputs,
                 const std::vector<int64_t>& kept = {}) const;
  std::string Serialize() const;

 private:
  PJRT_LoadedExecutable* handle_;
};

class Client {
 public:
  using Options = std::vector<PJRT_NamedValue>;
  explicit Client(const Options& options = {});
  ~Client();
  PJRT_Client* get() const { return handle_; }
  void Destroy();

  std::vector<PJRT_Device*> Devices() const;
  std::vector<PJRT_Memory*> Memories() const;
  Program Compile(const std::string& mlir,
                  const std::string& options = "") const;
  Outcome TryCompile(const std::string& code, const std::string& format,
                     const std::string& options = "") const;
  Program Load(const std::string& serialized) const;
  Outcome TryLoad(const std::string& serialized) const;

  template <class T>
  Buffer Put(const std::vector<T>& data, PJRT_Buffer_Type type,
             const std::vector<int64_t>& dims, int device = 0) const {
    return PutBytes(data.data(), type, dims, device);
  }
  Buffer PutF32(const std::vector<float>& data, int device = 0) const {
    return Put(data, PJRT_Buffer_Type_F32,
               {static_cast<int64_t>(data.size())}, device);
  }
  PJRT_Device_MemoryStats_Args MemoryStats(int device = 0) const;

 private:
  Buffer PutBytes(const void* data, PJRT_Buffer_Type type,
                  const std::vector<int64_t>& dims, int device) const;
  PJRT_Client* handle_;
};

Outcome TryClient(const Client::Options& options);

// Options; `name` must be a literal.
PJRT_NamedValue IntOption(const char* name, int64_t value);
PJRT_NamedValue BoolOption(const char* name, bool value);
PJRT_NamedValue TextOption(const char* name, const char* value);

// An extension of the table; null if it has none of this type.
PJRT_Extension_Base* FindExtension(PJRT_Extension_Type type);

// A function of the plugin's library by its exported name; null if absent.
void* FindExport(const char* name);

// f32[n] -> f32[n], elementwise a + b; a is donated if `donate`.
std::string AddProgram(int64_t n, bool donate = false);

}  // namespace harness

#define TEST(name)                                        \
  static void name();                                     \
  static const ::harness::Case name##_case(#name, &name); \
  static void name()

#define HIDDEN_TEST(name)                                       \
  static void name();                                           \
  static const ::harness::Case name##_case(#name, &name, true); \
  static void name()

#define EXPECT(condition)                                            \
  do {                                                               \
    if (!(condition)) ::harness::Fail(__FILE__, __LINE__, #condition); \
  } while (0)

#define EXPECT_EQ(a, b) \
  ::harness::ExpectEqual((a), (b), #a " == " #b, __FILE__, __LINE__)

#define EXPECT_OK(outcome)                                                  \
  do {                                                                      \
    const ::harness::Outcome o_ = (outcome);                                \
    if (o_.code != 0) ::harness::Fail(__FILE__, __LINE__, #outcome ": " + o_.message); \
  } while (0)

// The outcome has this code, and its message contains `part`.
#define EXPECT_ERROR(outcome, expected_code, part)                          \
  do {                                                                      \
    const ::harness::Outcome o_ = (outcome);                                \
    if (o_.code != (expected_code) ||                                       \
        o_.message.find(part) == std::string::npos)                         \
      ::harness::Fail(__FILE__, __LINE__,                                   \
                      #outcome ": code " + std::to_string(o_.code) +        \
                          ", \"" + o_.message + "\"");                      \
  } while (0)

// A zeroed args struct of the C API named `name`.
#define ARGS(Type, name) \
  Type name = ::harness::Zeroed<Type>(Type##_STRUCT_SIZE)

// Calls the API and fails on an error.
#define CALL(function, args) \
  EXPECT_OK(::harness::Take(::harness::api->function(&(args))))

#endif  // PJRT_XLACPU_TESTS_HARNESS_H_
