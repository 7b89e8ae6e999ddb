// SPDX-License-Identifier: Apache-2.0
// Work that may fail on one rank alone. Collective: where it fails on some rank, all throw the worst one's error.
#pragma once
#include <motley/error.h>
#include <motley/transport.h>

#include <functional>

namespace motley {

// Thrown by all ranks at one point of the run, whichever of them it happened on: what they do together can go on after it.
class AgreedError : public UserError {
 public:
  using UserError::UserError;
};

template <class Work>
void agreed(Transport& transport, Work&& work) {
  int status = 0;
  std::string text;
  try {
    work();
  } catch (const Error& e) {
    status = static_cast<int>(e.code());
    text = e.what();
  }
  const Verdict worst = agree(transport, status, text);
  if (worst.status != 0) throw UserError(worst.text, static_cast<Exit>(worst.status));
}

template <class Work>
void on_rank_0(Transport& transport, Work&& work) {
  agreed(transport, [&] {
    if (transport.rank() == 0) work();
  });
}

}  // namespace motley
