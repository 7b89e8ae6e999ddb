// SPDX-License-Identifier: Apache-2.0
/// @file
/// How the messages of an exchange are sent. An exchange is a list of boxes (exchange.h): which ranks have partial sums of a box
/// and which rank adds them, or which rank has its values and which ranks read them. A schedule is a tree per box: inner nodes add
/// up what their children send before they send it on (always in the same order, so a plan gives the same bits in whatever order
/// messages arrive), or forward values. One owner makes the final value.
///
/// n: bytes of a tensor; P: ranks, k of them on each host; C: chunks; lg: rounded up. "Steps" follow one another. "Each owns 1/P"
/// is what a training step does, "one owner" is a tensor that is stored on one rank (gloo's docs/algorithms.md has such a table).
///
///                | steps | a rank receives, each owns 1/P | the owner receives (sums) or sends (copies), one owner
///     direct     | 1     | n (P-1)/P in P-1 messages      | n (P-1)
///     ring       | P-2+C | n (P-1)/P in C (P-1) messages, | n, in C messages: every link carries a chunk at once
///                |       | all from one rank              |
///     halving    | lg P  | n (P-1)/P in P-1 messages,     | n lg P
///                |       | from lg P ranks                |
///     two_level  | 2     | n (P-1)/P, of them from other  | n (P/k-1) to or from other hosts (direct: n (P-k)),
///                |       | hosts n (P/k-1)/P, direct      | n (k-1) in its own; in C = k chunks each link
///                |       | n (P-k)/P (sums: on average)   | between two hosts carries n/k at once
///
/// A sum that several ranks read is two such exchanges, one after the other: partial sums to the owners, the owners' sums to the
/// readers. The sum of all bytes received is the same for every schedule; what differs is which links carry the bytes, how many
/// links at once, and how many message latencies are waited for. Between ranks of one host that see each other's memory a "message"
/// is a read in place, without a copy.
///
/// The planner chooses direct or two_level; ring and halving are available to plan files that name them.
#pragma once
#include <motley/exchange.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup exchanges
/// @{

/// The shape of the trees.
enum class Tree : std::uint8_t {
  direct,    ///< a star
  ring,      ///< a path from rank to rank, the box in chunks
  halving,   ///< a binomial tree
  two_level  ///< per host a star to one of its ranks (these take turns; on the owner's host: the owner), then a star between those
};
/// As in plan files, by Tree.
inline constexpr std::array<const char*, 4> kTreeNames{"direct", "ring", "halving", "two_level"};
/// How the messages of one exchange are sent.
struct Schedule {
  Tree tree = Tree::direct;  ///< shape of the trees
  int chunks = 1;            ///< of a box, in ring and two_level
  bool operator==(const Schedule&) const = default;
};
std::string to_string(const Schedule& s);  ///< "direct", "ring in 4 chunks", ...

/// Stage k starts at a rank once it has received its messages of all stages before k. direct: one stage, the messages as they are.
using Stages = std::vector<std::vector<BoxMessage>>;

/// The list's messages are partial sums that `to` adds. A stage's message carries the sum of its writers' partial sums and of what
/// its sender received in the same `tree` before; the owner's own partial sums (from == to) are in the last stage that brings it
/// something of the tree. hosts: one number per rank; empty: all ranks on one host.
Stages sum_stages(std::span<const BoxMessage> sums, const Schedule& by, std::span<const int> hosts);

/// The list's messages are finished values; readers forward what they have received. `tree`: the list's message that a part belongs
/// to.
Stages copy_stages(std::span<const BoxMessage> copies, const Schedule& by, std::span<const int> hosts);

/// What a message takes.
struct MessageSeconds {
  double seconds = 0;  ///< of the rank that receives it
  double on_card = 0;  ///< of these: of the network cards of both hosts, if its ends are on different ones
};
/// What one message takes.
using LinkSeconds = std::function<MessageSeconds(int from, int to, Index bytes)>;

/// When messages arrive, by the lines that they share: a rank receives one after another, and what ranks of different hosts send
/// each other occupies the one network card of either host, in either direction one message after another. No line waits for
/// another one: a message has arrived when all three have passed it, so that the order of messages that are ready together does not
/// count. A message without bytes occupies no card.
class Wires {
 public:
  /// hosts: one number of at least 0 per rank (of ranks beyond these: 0); they outlive the lines.
  explicit Wires(std::span<const int> hosts) : hosts_(hosts) {}
  /// When the message arrives that is ready to be sent at `ready`.
  double arrival(int from, int to, double ready, const MessageSeconds& takes);

 private:
  struct Line {
    double free = 0;  // from when on
    double pass(double ready, double seconds) { return free = std::max(free, ready) + seconds; }
  };
  int host(int rank) const;
  std::span<const int> hosts_;
  std::vector<Line> ranks_{}, out_{}, in_{};  // by rank; by host, away from it and to it
};

/// The seconds of a list of messages (all from one rank to another together) that are ready at once: until the last arrives. hosts:
/// as of Wires.
double seconds_of(std::span<const BoxMessage> messages, Index item_bytes, const LinkSeconds& link, std::span<const int> hosts);
/// Stages run one after another.
double seconds_of(const Stages& stages, Index item_bytes, const LinkSeconds& link, std::span<const int> hosts);

/// @}
}  // namespace motley
