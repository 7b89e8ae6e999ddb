// SPDX-License-Identifier: Apache-2.0
// What the ranks send each other about the run itself, over a transport's own messages.
#pragma once
#include <motley/transport.h>

#include <optional>

namespace motley::control {

// Tags below 0 are the house's own: a transport keeps them apart from users' tags and does not count their bytes.
constexpr int kGather = -1, kFarewell = -2, kTrace = -3, kCopies = -4;

// Transport::gather_all by point-to-point messages, so that a rank that does not come is named.
std::vector<std::vector<std::byte>> gather(Transport& transport, std::span<const std::byte> mine);

struct Farewell {
  Verdict worst{};
  bool clean = true;  // no rank has left a message unfinished
};

// The last thing a rank does: like agree(), on a tag of its own, so it may meet ranks in the middle of anything.
// Nothing when the others have not come within `patience_seconds` (0: waits as any wait).
std::optional<Farewell> farewell(Transport& transport, int status, const std::string& text, double patience_seconds);

}  // namespace motley::control
