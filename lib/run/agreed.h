// SPDX-License-Identifier: Apache-2.0
// Work that may fail on a single rank. Collective: if it fails on some rank, all ranks throw the worst rank's error.
#pragma once
#include <motley/error.h>
#include <motley/transport.h>

#include <cstddef>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"

namespace motley {

// Thrown by all ranks at the same point of the run, whichever rank the error happened on: they can continue together after it.
class AgreedError : public UserError {
 public:
  AgreedError(const std::string& text, Exit code, int rank) : UserError(text, code), rank_(rank) {}
  explicit AgreedError(const Verdict& worst) : AgreedError(worst.text, static_cast<Exit>(worst.status), worst.rank) {}
  int rank() const { return rank_; }  // on which it happened (the first, if on several)

 private:
  int rank_;
};

// The error that the work throws. An exception that is not motley's, such as one of a user's data set, counts as a data error.
template <class Work>
std::optional<Error> error_of(Work&& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return Error(Exit::device, "out of memory");
  } catch (const std::filesystem::filesystem_error& e) {
    return Error(Exit::io, text_of(e));
  } catch (const std::exception& e) {
    return Error(Exit::data, e.what());
  } catch (...) {
    return Error(Exit::data, "something other than a std::exception was thrown");
  }
}

template <class Work>
void agreed(Transport& transport, Work&& work) {
  const std::optional<Error> mine = error_of(work);
  const Verdict worst = agree(transport, mine ? static_cast<int>(mine->code()) : 0, mine ? mine->what() : "");
  if (worst.status != 0) throw AgreedError(worst);
}

template <class Work>
void on_rank_0(Transport& transport, Work&& work) {
  agreed(transport, [&] {
    if (transport.rank() == 0) work();
  });
}

// The text that rank 0 makes, on every rank.
template <class Make>
std::string from_rank_0(Transport& transport, Make&& make) {
  std::string text;
  on_rank_0(transport, [&] { text = make(); });
  const std::vector<std::byte> bytes = transport.gather_all(std::as_bytes(std::span(text))).front();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace motley
