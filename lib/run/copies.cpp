// SPDX-License-Identifier: Apache-2.0
#include "run/copies.h"

#include <motley/error.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "base/at.h"
#include "mesh/control.h"
#include "plan/plan_data.h"

namespace motley {

Copies::Copies(const Plan& plan, const Program& program, const Executor& executor, Transport& transport)
    : executor_(executor), transport_(transport) {
  const PlanData& data = plan.data();
  for (int p : data.passes.parameters) {
    const Format order = at(data.formats, p);
    for (const BoxMessage& m : at(data.tensors, p).fill.messages) {
      if (m.from == program.rank) {
        const auto slice = std::find_if(program.slices.begin(), program.slices.end(),
                                        [&](const Slice& s) { return s.tensor == p && contains(s.box, m.box); });
        check(slice != program.slices.end(), "who gives a parameter away owns it");
        peers_[m.to].given.push_back({p, slice->value, m.box, order});
      }
      if (m.to == program.rank) {
        const int read = program.buffer_of(p, Stored::As::reader, m.box);
        check(read >= 0, "who reads a parameter has a place for it");
        // A copy is complete before the last step that reads it; after that its memory may be used for another tensor.
        const Buffer& buffer = at(program.buffers, read);
        const int last = buffer.space == Space::state ? program.forward_steps : buffer.last;
        std::vector<Copy>& all = peers_[m.from].read;
        whole_after_[std::min(last, program.forward_steps) - 1].emplace_back(m.from, all.size());
        all.push_back({p, read, m.box, order});
      }
    }
  }
  for (auto& [rank, peer] : peers_) peer.read_hashes.resize(peer.read.size());
}

void Copies::after_step(int step) {
  const auto found = whole_after_.find(step);
  if (found == whole_after_.end()) return;
  for (const auto& [rank, i] : found->second) {
    Peer& peer = peers_.at(rank);
    const Copy& copy = peer.read[i];
    peer.read_hashes[i] = executor_.hash(copy.buffer, copy.box, copy.order);
  }
}

std::vector<CopyDifference> Copies::compare() {
  const int me = transport_.rank();
  struct Hashes {
    std::vector<std::uint64_t> heard{}, read{};  // hashes: by that rank of this one's boxes; the other way round
  };
  const auto memory = std::make_shared<std::map<int, Hashes>>();
  std::map<int, Hashes>& by_rank = *memory;
  control::InFlight messages(transport_, memory);
  for (const auto& [rank, peer] : peers_) {
    Hashes& hashes = by_rank[rank];
    hashes.heard.resize(peer.given.size());
    if (rank == me) {
      hashes.heard = peer.read_hashes;
      continue;
    }
    if (!peer.given.empty()) messages.receive(rank, control::kCopies, std::as_writable_bytes(std::span(hashes.heard)));
    if (peer.read.empty()) continue;
    hashes.read = peer.read_hashes;
    messages.send(rank, control::kCopies, std::as_bytes(std::span(hashes.read)));
    bytes_sent_ += static_cast<Index>(hashes.read.size() * sizeof(std::uint64_t));
  }
  messages.finish("comparing copies");
  std::vector<CopyDifference> mine;
  std::map<std::pair<int, Box>, std::uint64_t> known;  // several readers receive the same box
  for (const auto& [rank, peer] : peers_)
    for (std::size_t i = 0; i < peer.given.size(); i++) {
      const Copy& copy = peer.given[i];
      const auto [found, first] = known.try_emplace({copy.buffer, copy.box});
      if (first) found->second = executor_.hash(copy.buffer, copy.box, copy.order);
      if (found->second != by_rank.at(rank).heard[i]) mine.push_back({copy.tensor, me, rank});
    }
  std::vector<CopyDifference> all;
  for (const auto& bytes : transport_.gather_all(std::as_bytes(std::span(mine)))) {
    const std::size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(CopyDifference));
    if (!bytes.empty()) std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<CopyDifference> copies_differ(const Plan& plan, const Program& program, Executor& executor, Transport& transport) {
  Copies copies(plan, program, executor, transport);
  executor.run_forward([&](int step) { copies.after_step(step); });
  return copies.compare();
}

std::string to_text(const std::vector<CopyDifference>& differences, const Plan& plan) {
  auto ranks = [](const std::set<int>& of) {
    std::string text = of.size() == 1 ? "rank " : "ranks ";
    for (const int r : of) text += (r == *of.begin() ? "" : ", ") + std::to_string(r);
    return text;
  };
  std::map<int, std::pair<std::set<int>, std::set<int>>> tensors;  // readers, owners
  for (const CopyDifference& d : differences) {
    tensors[d.tensor].first.insert(d.reader);
    tensors[d.tensor].second.insert(d.owner);
  }
  std::string text;
  for (const auto& [tensor, of] : tensors)
    text += (text.empty() ? "\"" : ", \"") + at(plan.data().passes.tensors, tensor).name + "\" on " + ranks(of.first) +
            " (owned by " + ranks(of.second) + ")";
  return text;
}

}  // namespace motley
