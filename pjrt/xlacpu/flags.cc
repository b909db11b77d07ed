#include "flags.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "xla/debug_options_flags.h"
#include "xla/tsl/util/command_line_flags.h"
#include "xla/xla.pb.h"

namespace xlacpu {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

bool IsFlagCharacter(char c) {
  return absl::ascii_isalnum(c) || c == '-' || c == '_';
}

// The end of the quoted value that opens at text[begin], and its characters.
// Inside double quotes a backslash stands for the character after it.
size_t ReadQuoted(std::string_view text, size_t begin, std::string& value) {
  const char quote = text[begin];
  size_t end = begin + 1;
  for (; end < text.size() && text[end] != quote; ++end) {
    if (quote == '"' && text[end] == '\\' && end + 1 < text.size()) ++end;
    value += text[end];
  }
  return end < text.size() ? end + 1 : end;
}

// XLA's own rules: flags are separated by white space, a value may be quoted,
// and the first word that does not start with a dash ends the list.
std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> flags;
  size_t begin = text.find_first_not_of(kSpace);
  while (begin != text.npos && text[begin] == '-') {
    size_t end = begin;
    while (end < text.size() && IsFlagCharacter(text[end])) ++end;
    std::string flag;
    const bool quoted = end + 1 < text.size() && text[end] == '=' &&
                        (text[end + 1] == '\'' || text[end + 1] == '"');
    if (quoted) {
      flag = text.substr(begin, end + 1 - begin);
      end = ReadQuoted(text, end + 1, flag);
    } else {
      end = std::min(text.find_first_of(kSpace, end), text.size());
      flag = text.substr(begin, end - begin);
    }
    flags.push_back(std::move(flag));
    begin = text.find_first_not_of(kSpace, end);
  }
  return flags;
}

absl::Status CheckOne(std::string& flag, absl::Span<const tsl::Flag> known) {
  // XLA counts fuel in globals that only its own reading of the variable makes.
  constexpr std::string_view kFuel = "--xla_fuel=";
  if (flag.compare(0, kFuel.size(), kFuel) == 0) return absl::OkStatus();
  char program[] = "";
  char* arguments[] = {program, flag.data(), nullptr};
  int count = 2;
  if (!tsl::Flags::Parse(&count, arguments, known)) {
    return absl::InvalidArgumentError(
        absl::StrCat("XLA_FLAGS: malformed value in \"", flag, "\""));
  }
  if (count != 1) {  // what is known is taken out
    return absl::InvalidArgumentError(
        absl::StrCat("XLA_FLAGS: unknown flag \"", flag, "\""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFlags(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (text.empty() || first == text.npos) return absl::OkStatus();
  std::string content(text);
  if (text[first] != '-') {  // the name of a file with flags
    std::ifstream file(content);
    if (!file) {
      return absl::InvalidArgumentError(absl::StrCat(
          "XLA_FLAGS: \"", text, "\" is neither a list of flags, each of which ",
          "starts with \"--\", nor a file that can be read"));
    }
    std::ostringstream bytes;
    bytes << file.rdbuf();
    content = bytes.str();
  }
  xla::DebugOptions scratch;
  std::vector<tsl::Flag> known;
  xla::MakeDebugOptionsFlags(&known, &scratch);
  for (std::string& flag : Split(content)) {
    absl::Status status = CheckOne(flag, known);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckEnvironmentFlags() {
  const char* text = std::getenv("XLA_FLAGS");
  return text == nullptr ? absl::OkStatus() : CheckFlags(text);
}

}  // namespace xlacpu
