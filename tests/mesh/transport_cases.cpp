// SPDX-License-Identifier: Apache-2.0
#include "tests/mesh/transport_cases.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>

namespace {

using namespace motley;
using Bytes = std::vector<std::byte>;

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("expected: " + what);
}

std::string text_of(const auto& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

Bytes pattern(int from, int to, int tag, std::size_t size) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; i++)
    out[i] = static_cast<std::byte>((static_cast<std::size_t>(from * 31 + to * 17 + tag * 7) + i) & 0xffU);
  return out;
}

// A different size for each pair and tag, some 0.
std::size_t size_of(int from, int to, int tag) {
  return static_cast<std::size_t>((from * 5 + to * 3 + tag) % 4 * (1 + tag * 97 + from));
}

// All pairs, tags 0..last, awaited in an order of its own on each rank.
void everyone_to_everyone(Transport& t, int tags, std::size_t factor) {
  const std::int64_t before = t.bytes_received();
  std::vector<Bytes> out, in, want;
  std::vector<Transport::Ticket> tickets;
  std::int64_t expected = 0;
  for (int other = 0; other < t.size(); other++)
    for (int tag = 0; tag < tags && other != t.rank(); tag++) {
      out.push_back(pattern(t.rank(), other, tag, factor * size_of(t.rank(), other, tag)));
      want.push_back(pattern(other, t.rank(), tag, factor * size_of(other, t.rank(), tag)));
      in.emplace_back(want.back().size());
      expected += static_cast<std::int64_t>(in.back().size());
    }
  std::size_t i = 0;
  for (int other = 0; other < t.size(); other++)
    for (int tag = 0; tag < tags && other != t.rank(); tag++, i++) {
      tickets.push_back(t.send(other, tag, out[i]));
      tickets.push_back(t.receive(other, tag, in[i]));
    }
  if (t.rank() % 2 == 1) std::reverse(tickets.begin(), tickets.end());
  wait(t, tickets, "everyone to everyone");
  expect(in == want, "every byte in its place");
  expect(t.bytes_received() - before == expected, "the payload is counted, no more");
}

void uneven_and_empty(Transport& t) {
  everyone_to_everyone(t, 5, 1);
}
void many_outstanding(Transport& t) {
  everyone_to_everyone(t, 150, 1);
}
void large(Transport& t) {
  everyone_to_everyone(t, 2, 40000);
}  // up to 1.5 MB a message

// Longer than what one part of a message takes.
void long_message(Transport& t) {
  if (t.size() < 2) return;
  const int next = (t.rank() + 1) % t.size(), before = (t.rank() + t.size() - 1) % t.size();
  constexpr std::size_t kBytes = (std::size_t{33} << 20) + 5;
  const auto value = [](int rank, std::size_t i) {
    return static_cast<std::byte>(static_cast<std::size_t>(rank) + i + (i >> 13U));
  };
  std::vector<std::byte> out(kBytes), in(kBytes);
  for (std::size_t i = 0; i < kBytes; i++) out[i] = value(t.rank(), i);
  const std::int64_t bytes = t.bytes_received();
  const Transport::Ticket both[]{t.receive(before, 3, in), t.send(next, 3, out)};
  wait(t, both, "a long message");
  bool same = true;
  for (std::size_t i = 0; i < kBytes; i++) same = same && in[i] == value(before, i);
  expect(same, "what was sent arrives");
  expect(t.bytes_received() - bytes == static_cast<std::int64_t>(kBytes), "its bytes count once");
}

void order_and_late_waits(Transport& t) {
  if (t.size() < 2) return;
  const int next = (t.rank() + 1) % t.size(), before = (t.rank() + t.size() - 1) % t.size();
  std::vector<int> out(20), in(20, -1);
  std::iota(out.begin(), out.end(), 100 * t.rank());
  std::vector<Transport::Ticket> receives, sends;
  for (std::size_t i = 0; i < in.size(); i++)
    receives.push_back(t.receive(before, 3, std::as_writable_bytes(std::span(&in[i], 1))));
  for (std::size_t i = 0; i < out.size(); i++) sends.push_back(t.send(next, 3, std::as_bytes(std::span(&out[i], 1))));
  for (std::size_t i = receives.size(); i-- > 0;) wait(t, std::span(&receives[i], 1), "the last one first");
  wait(t, sends, "sends");
  for (std::size_t i = 0; i < in.size(); i++) expect(in[i] == 100 * before + static_cast<int>(i), "one tag keeps its order");
}

void gather_all(Transport& t) {
  const std::int64_t before = t.bytes_received();
  for (int round = 0; round < 20; round++) {
    const auto size = static_cast<std::size_t>(t.rank() * round % 7 * 100);
    const auto all = t.gather_all(pattern(t.rank(), 0, round, size));
    expect(static_cast<int>(all.size()) == t.size(), "one part per rank");
    for (int r = 0; r < t.size(); r++)
      expect(all[static_cast<std::size_t>(r)] == pattern(r, 0, round, static_cast<std::size_t>(r * round % 7 * 100)),
             "every rank's bytes");
  }
  expect(t.bytes_received() == before, "control bytes are not counted");
}

void agreement(Transport& t) {
  Verdict v = agree(t, 0);
  expect(v.status == 0 && v.rank == 0 && v.text.empty(), "all well");
  v = agree(t, t.rank() == t.size() - 1 ? 78 : 65, "rank " + std::to_string(t.rank()));
  expect(v.status == 78 && v.rank == t.size() - 1 && v.text == "rank " + std::to_string(t.size() - 1), "the worst wins: " + v.text);
  v = agree(t, 66, "rank " + std::to_string(t.rank()));
  expect(v.status == 66 && v.rank == 0 && v.text == "rank 0", "of equals the first");
}

void sizes_that_differ(Transport& t) {
  if (t.size() < 2) return;
  for (const auto& [sent, expected] : {std::pair{3, 8}, {8, 3}}) {
    if (t.rank() == 0) {
      const Bytes message(static_cast<std::size_t>(sent));
      const auto ticket = t.send(1, 0, message);
      wait(t, std::span(&ticket, 1), "send");
    } else if (t.rank() == 1) {
      Bytes into(static_cast<std::size_t>(expected));
      const auto ticket = t.receive(0, 0, into);
      const std::string says = text_of([&] { wait(t, std::span(&ticket, 1), "receive"); });
      const std::string sizes =
          "rank 0 sent " + std::to_string(sent) + " bytes with tag 0, rank 1 expected " + std::to_string(expected);
      const bool cut = says.find("a message is longer than what was expected") != std::string::npos;  // MPI does not say how long
      expect(says.find(sizes) != std::string::npos || (sent > expected && cut), "both sizes named, not: " + says);
    }
    expect(t.idle(), "a message of the wrong size has ended");
  }
  expect(!text_of([&] { static_cast<void>(t.send(t.rank(), 0, {})); }).empty(), "no message to oneself");
}

void memory(Transport& t) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100'001}}) {
    const HeldBytes held = t.allocate(size);
    const std::span<std::byte> bytes = held.bytes;
    expect(bytes.size() == size && reinterpret_cast<std::uintptr_t>(bytes.data()) % 4096 == 0, "aligned, as long as asked");
    expect(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }), "zeroed");
    std::fill(bytes.begin(), bytes.end(), std::byte{1});
  }
  const std::string says = text_of([&] { static_cast<void>(t.allocate(std::size_t{1} << 60U)); });
  expect(says.find("bytes of memory are free") != std::string::npos, "too much is refused: " + says);
}

// Each rank writes and says so, reads what the others wrote, and says so before they write again.
void shared_memory(Transport& t) {
  expect(static_cast<int>(t.hosts().size()) == t.size(), "a host number per rank");
  const auto me = static_cast<std::size_t>(t.rank()), ranks = static_cast<std::size_t>(t.size());
  const std::size_t size = 5000 + 4096 * me;
  const HeldBytes held = t.allocate(size);
  const std::vector<HeldBytes> views = t.share(held);
  const std::span<std::byte> mine = held.bytes;
  std::vector<std::span<std::byte>> all;
  for (const HeldBytes& view : views) all.push_back(view.bytes);
  expect(all.size() == ranks && all[me].data() == mine.data(), "one view per rank");
  auto flag = [&](std::size_t owner, std::size_t which) -> std::atomic<std::uint64_t>& {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(all[owner].data() + 64 * which);
  };
  const std::int64_t before = t.bytes_received();
  std::int64_t expected = 0;
  for (std::uint64_t round = 1; round <= 50; round++) {
    const auto text = pattern(t.rank(), 0, static_cast<int>(round), size - 1024);
    std::copy(text.begin(), text.end(), mine.begin() + 1024);
    flag(me, 0).store(round, std::memory_order_release);
    std::vector<Transport::Ticket> written, read;
    for (std::size_t r = 0; r < ranks; r++) {
      expect(all[r].empty() == (t.hosts()[r] != t.hosts()[me]), "what this host's ranks have is seen, no more");
      if (r == me || all[r].empty()) continue;
      written.push_back(t.await(flag(r, 0), round, static_cast<int>(r), 10));
      read.push_back(t.await(flag(r, 1 + me), round, static_cast<int>(r), 0));
      expected += 10;
    }
    wait(t, written, "written");
    for (std::size_t r = 0; r < ranks; r++) {
      if (r == me || all[r].empty()) continue;
      expect(all[r].size() == 5000 + 4096 * r, "as long as it is");
      const auto want = pattern(static_cast<int>(r), 0, static_cast<int>(round), all[r].size() - 1024);
      expect(std::equal(want.begin(), want.end(), all[r].begin() + 1024), "what its rank wrote before it said so");
      flag(me, 1 + r).store(round, std::memory_order_release);
    }
    wait(t, read, "read");
  }
  expect(t.bytes_received() - before == expected, "the payload is counted as signalled");
}

void deadline(Transport& t) {
  if (t.size() < 2) return;
  const double usual = deadline_seconds();
  static_cast<void>(agree(t, 0));
  int value = 0;
  if (t.rank() == 0) {
    // On threads all ranks have one deadline: the others sleep meanwhile.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    set_deadline_seconds(0.3);
    const auto start = std::chrono::steady_clock::now();
    const auto ticket = t.receive(1, 9, std::as_writable_bytes(std::span(&value, 1)));
    const std::string says = text_of([&] { wait(t, std::span(&ticket, 1), "all_gather conv2d_1"); });
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    set_deadline_seconds(usual);
    expect(says ==
               "rank 0 has waited 0 s for rank 1 in \"all_gather conv2d_1\", and no data has moved; if a rank computes for longer "
               "than this, set MOTLEY_HUNG_SECONDS above that time",
           says);
    expect(took > 0.25 && took < 5, "after the deadline, not before");
    static_cast<void>(t.gather_all({}));
    wait(t, std::span(&ticket, 1), "the late message");
    expect(value == 7, "a wait that was given up can be taken up again");
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    static_cast<void>(t.gather_all({}));
    const int seven = 7;
    if (t.rank() != 1) return;
    const auto ticket = t.send(0, 9, std::as_bytes(std::span(&seven, 1)));
    wait(t, std::span(&ticket, 1), "send");
  }
}

struct Heard : WaitObserver {
  std::vector<std::pair<std::string, int>> waits;
  std::int64_t bytes = -1;
  void waiting(const std::string& what, int from) override { waits.emplace_back(what, from); }
  void done(std::int64_t b) override { bytes = b; }
  bool sees(int from) const override { return from != blind_to; }
  int blind_to = -2;
};

// Of a rank that the observer does not see no one says that it hangs: the wait has its deadline. On threads all ranks have one
// deadline: the other ranks poll meanwhile and wait for nothing.
void observer_is_blind(Transport& t) {
  if (t.size() < 2) return;
  std::byte go{};
  std::vector<Transport::Ticket> open;
  if (t.rank() > 0) {
    open = {t.send(0, 7, std::span(&go, 1)), t.receive(0, 8, std::span(&go, 1))};
    while (!open.empty()) {
      std::erase_if(open, [&](Transport::Ticket ticket) { return t.test(ticket); });
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (t.rank() > 1) return;
    const auto ticket = t.send(0, 9, std::span(&go, 1));
    return wait(t, std::span(&ticket, 1), "send");
  }
  for (int r = 1; r < t.size(); r++) open.push_back(t.receive(r, 7, std::span(&go, 1)));
  wait(t, open, "the others poll");
  const double usual = deadline_seconds();
  Heard heard;
  heard.blind_to = 1;
  std::byte late{};
  const auto ticket = t.receive(1, 9, std::span(&late, 1));
  t.observe(&heard);
  set_deadline_seconds(0.3);
  const std::string says = text_of([&] { wait(t, std::span(&ticket, 1), "all_gather conv2d_1"); });
  set_deadline_seconds(usual);
  t.observe(nullptr);
  open = {ticket};
  for (int r = 1; r < t.size(); r++) open.push_back(t.send(r, 8, std::span(&go, 1)));
  wait(t, open, "the late message");
  expect(says.find("set MOTLEY_HUNG_SECONDS") != std::string::npos, "the wait ends, and says what to change: " + says);
}

void observer(Transport& t) {
  static_cast<void>(agree(t, 0));
  Heard heard;
  t.observe(&heard);
  std::vector<std::byte> data(16);
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::seconds(1);  // so long that a rank without a core for a while still waits 50 ms
  auto late = [&] { return std::chrono::steady_clock::now() > until; };
  if (t.rank() == 0 && t.size() > 1) {
    const auto ticket = t.receive(1, 0, data);
    wait(t, std::span(&ticket, 1), "slow");
    expect(std::count(heard.waits.begin(), heard.waits.end(), std::pair<std::string, int>("slow", 1)) == 1,
           "reported once, by name and rank");
    expect(heard.bytes == t.bytes_received(), "reported when it is over");
  } else {
    wait(t, {}, "a device", late);
    expect(heard.waits.empty(), "a device at work is no wait for a rank");
    if (t.rank() == 1) {
      const auto ticket = t.send(0, 0, data);
      wait(t, std::span(&ticket, 1), "send");
    }
  }
  t.observe(nullptr);
}

}  // namespace

const std::vector<TransportCase>& transport_cases() {
  static const std::vector<TransportCase> cases{{"uneven and empty messages", uneven_and_empty},
                                                {"many outstanding", many_outstanding},
                                                {"large messages", large},
                                                {"a long message", long_message},
                                                {"order and late waits", order_and_late_waits},
                                                {"gather_all", gather_all},
                                                {"agree", agreement},
                                                {"memory", memory},
                                                {"memory that ranks share", shared_memory},
                                                {"the deadline names the rank", deadline},
                                                {"the observer hears long waits", observer},
                                                {"a rank that the observer does not see", observer_is_blind},
                                                {"sizes that differ", sizes_that_differ}};
  return cases;
}
