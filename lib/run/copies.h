// SPDX-License-Identifier: Apache-2.0
// Compares copies of parameters with their owners' bits.
#pragma once
#include <motley/executor.h>

#include <map>
#include <string>
#include <vector>

namespace motley {

// A reader's copy of some box whose bits differ from the owner's values.
struct CopyDifference {
  std::int32_t tensor = -1;  // number among the plan's tensors
  std::int32_t owner = -1, reader = -1;
  auto operator<=>(const CopyDifference&) const = default;
};

// Reader and owner each hash (XXH3) the bytes of every box that one sends to the other; the reader sends its hashes to the owner, 8
// bytes per box: a rank sends at most 8 bytes per parameter and other rank. Three calls, which every rank makes:
// Executor::run_forward with after_step, then compare() before the update.
class Copies {
 public:
  Copies(const Plan& plan, const Program& program, const Executor& executor, Transport& transport);
  // After each step of the forward half: hashes the copies that are complete now and whose memory may be used for another tensor
  // later.
  void after_step(int step);
  // Collective. The differences on all ranks: the same list on every rank, in the plan's order.
  std::vector<CopyDifference> compare();
  Index bytes_sent() const { return bytes_sent_; }  // by this rank in all compare() so far, without the list

 private:
  struct Copy {
    int tensor = -1, buffer = -1;  // buffer: the owner's slice, or the reader's main buffer
    Box box{};
    Format order = Format::plain;  // the order in which both hash it: that of the plan, in which both store it
  };
  struct Peer {
    std::vector<Copy> given{}, read{};  // to and from that rank (this one too: its own part, copied), in the plan's order
    std::vector<std::uint64_t> read_hashes{};
  };
  const Executor& executor_;
  Transport& transport_;
  std::map<int, Peer> peers_{};
  std::map<int, std::vector<std::pair<int, std::size_t>>> whole_after_{};  // step -> (peer, index in its `read`)
  Index bytes_sent_ = 0;
};

// Collective. Runs the forward half on the inputs fed last, which fills all copies, and compares these.
std::vector<CopyDifference> copies_differ(const Plan& plan, const Program& program, Executor& executor, Transport& transport);
// `"conv2d_1.weight" on ranks 1, 2 (owned by rank 0), ...`
std::string to_text(const std::vector<CopyDifference>& differences, const Plan& plan);

}  // namespace motley
