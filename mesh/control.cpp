// SPDX-License-Identifier: Apache-2.0
// motley's internal messages, over any transport.
#include "mesh/control.h"

#include <algorithm>
#include <cstring>

#include "mesh/backoff.h"

namespace motley::control {

namespace {

struct Word {
  std::int32_t status = 0, clean = 1, length = 0;
  char text[1012]{};
};

std::span<const std::byte> bytes_of(const auto& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Gathering::Gathering(Transport& transport, int tag, std::span<const std::byte> mine, std::uint64_t size)
    : frames_(std::make_shared<std::vector<Frame>>(static_cast<std::size_t>(transport.size()))), messages_(transport, frames_) {
  const auto me = static_cast<std::size_t>(transport.rank());
  std::vector<Frame>& frames = *frames_;
  check(mine.size() <= kMost, "a control message's first bytes");
  frames[me].size = size;
  std::copy(mine.begin(), mine.end(), frames[me].bytes.begin());
  for (std::size_t r = 0; r < frames.size(); r++) {
    if (r == me) continue;
    const int other = static_cast<int>(r);
    messages_.send(other, tag, bytes_of(frames[me]));
    messages_.receive(other, tag, std::as_writable_bytes(std::span(&frames[r], 1)));
  }
}

const std::vector<Gathering::Frame>& Gathering::finish(const std::string& what) {
  messages_.finish(what);
  return *frames_;
}

// The first message contains the size, and all of a small message, so that small ones take one round.
void to_first(Transport& transport, std::span<const std::byte> mine, const std::string& what,
              const std::function<void(int rank, std::span<const std::byte> bytes)>& take) {
  struct Message {
    std::uint64_t size = 0;
    std::vector<std::byte> bytes{};
  };
  if (transport.rank() != 0) {
    const auto out = std::make_shared<Message>(Message{mine.size(), {mine.begin(), mine.end()}});
    InFlight messages(transport, out);
    messages.send(0, kToFirst, bytes_of(out->size));
    messages.send(0, kToFirst, out->bytes);
    messages.finish(what);
    return;
  }
  take(0, mine);
  for (int from = 1; from < transport.size(); from++) {
    const auto in = std::make_shared<Message>();
    InFlight messages(transport, in);
    messages.receive(from, kToFirst, std::as_writable_bytes(std::span(&in->size, 1)));
    messages.finish(what);
    in->bytes.resize(in->size);
    messages.receive(from, kToFirst, in->bytes);
    messages.finish(what);
    take(from, in->bytes);
  }
}

std::vector<std::vector<std::byte>> gather(Transport& transport, std::span<const std::byte> mine) {
  const auto ranks = static_cast<std::size_t>(transport.size()), me = static_cast<std::size_t>(transport.rank());
  constexpr std::size_t kFirst = Gathering::kMost;
  Gathering heads(transport, kGather, mine.first(std::min(mine.size(), kFirst)), mine.size());
  const auto memory = std::make_shared<std::vector<std::vector<std::byte>>>(ranks);
  std::vector<std::vector<std::byte>>& all = *memory;
  all[me].assign(mine.begin(), mine.end());
  InFlight rest(transport, memory);
  for (std::size_t r = 0; r < ranks && mine.size() > kFirst; r++)
    if (r != me) rest.send(static_cast<int>(r), kGather, std::span(all[me]).subspan(kFirst));
  const std::vector<Gathering::Frame>& frames = heads.finish("gather_all");
  for (std::size_t r = 0; r < ranks; r++) {
    if (r == me) continue;
    all[r].resize(frames[r].size);
    std::copy_n(frames[r].bytes.data(), std::min(all[r].size(), kFirst), all[r].begin());
    if (all[r].size() > kFirst) rest.receive(static_cast<int>(r), kGather, std::span(all[r]).subspan(kFirst));
  }
  rest.finish("gather_all");
  return std::move(all);
}

std::optional<Farewell> farewell(Transport& transport, int status, const std::string& text, double patience_seconds) {
  const auto ranks = static_cast<std::size_t>(transport.size()), me = static_cast<std::size_t>(transport.rank());
  const auto memory = std::make_shared<std::vector<Word>>(ranks);
  transport.keep(memory);  // if not all ranks come, the messages outlive this call
  std::vector<Word>& words = *memory;
  words[me].status = status;
  words[me].clean = transport.idle() ? 1 : 0;
  words[me].length = static_cast<std::int32_t>(std::min(text.size(), sizeof words[me].text));
  std::memcpy(words[me].text, text.data(), static_cast<std::size_t>(words[me].length));
  std::vector<Transport::Ticket> open;
  for (std::size_t r = 0; r < ranks; r++) {
    if (r == me) continue;
    open.push_back(transport.send(static_cast<int>(r), kFarewell, bytes_of(words[me])));
    open.push_back(transport.receive(static_cast<int>(r), kFarewell, std::as_writable_bytes(std::span(&words[r], 1))));
  }
  if (patience_seconds > 0) {
    Backoff backoff(transport.crowded());
    const auto sweep = [&] { std::erase_if(open, [&](Transport::Ticket t) { return transport.test(t); }); };
    for (sweep(); !open.empty(); sweep()) {
      backoff.pause();
      if (backoff.due() && backoff.seconds() > patience_seconds) return std::nullopt;
    }
  } else {
    wait(transport, open, "the end of the run");
  }
  Farewell all;
  for (std::size_t r = 0; r < ranks; r++) {
    const Word& word = words[r];
    all.clean = all.clean && word.clean != 0;
    if (all.worst.rank < 0 || word.status > all.worst.status)
      all.worst = {word.status, static_cast<int>(r), std::string(word.text, static_cast<std::size_t>(word.length))};
  }
  return all;
}

}  // namespace motley::control
