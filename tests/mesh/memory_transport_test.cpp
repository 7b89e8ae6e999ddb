// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>
#include <motley/redistribute.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "mesh/control.h"
#include "tests/mesh/transport_cases.h"
#include "tests/support/threads.h"

using namespace motley;

TEST_CASE("memory: every case at 1 to 4 ranks") {
  for (const auto& [name, body] : transport_cases())
    for (int ranks = 1; ranks <= 4; ranks++) {
      INFO(name << ", " << ranks << " ranks");
      CHECK_NOTHROW(on_threads(ranks, body));
    }
}

TEST_CASE("memory: an abort wakes every rank that waits, with the error") {
  std::vector<std::string> woken(3);
  std::vector<int> codes(3);
  auto ranks = in_memory(3);
  std::vector<std::thread> threads;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t r = 0; r < 3; r++)
    threads.emplace_back([&, r] {
      if (r == 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ranks[2]->abort(UserError("loss is not finite", Exit::internal));
        ranks[2]->abort(UserError("a second reason"));  // the first stands
        return;
      }
      try {
        if (r == 0) static_cast<void>(ranks[0]->gather_all({}));
        int value = 0;
        const auto ticket = ranks[r]->receive(2, 0, std::as_writable_bytes(std::span(&value, 1)));
        wait(*ranks[r], std::span(&ticket, 1), "never");
      } catch (const Error& e) {
        woken[r] = e.what();
        codes[r] = static_cast<int>(e.code());
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(woken == std::vector<std::string>{"loss is not finite", "loss is not finite", ""});
  CHECK(codes == std::vector<int>{70, 70, 0});
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("memory: 6 ranks on few cores finish quickly") {
  const auto start = std::chrono::steady_clock::now();
  on_threads(6, [](Transport& t) {
    for (int i = 0; i < 100; i++) static_cast<void>(agree(t, 0));
  });
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

namespace {

// Rank 0 of two, whose messages never end: every test() throws. Of each it keeps where its bytes are and what they were.
struct Unanswered final : Transport {
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Ticket send(int, int, std::span<const std::byte> bytes) override { return note(bytes); }
  Ticket receive(int, int, std::span<std::byte> bytes) override {
    std::fill(bytes.begin(), bytes.end(), std::byte{42});  // as a message that is arriving does
    return note(bytes);
  }
  bool test(Ticket) override { throw Error(Exit::hung, "no answer"); }
  int peer(Ticket) const override { return 1; }
  bool idle() const override { return false; }
  std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> mine) override { return control::gather(*this, mine); }
  HeldBytes allocate(std::size_t) override { return {}; }
  std::vector<HeldBytes> share(const HeldBytes&) override { return {}; }
  Ticket await(const std::atomic<std::uint64_t>&, std::uint64_t, int, std::int64_t) override { return 0; }
  void abort(const Error&) noexcept override {}

  bool unharmed() const {
    return std::all_of(messages.begin(), messages.end(),
                       [](const auto& m) { return std::equal(m.first.begin(), m.first.end(), m.second.begin()); });
  }
  std::vector<std::pair<std::span<const std::byte>, std::vector<std::byte>>> messages{};

 private:
  Ticket note(std::span<const std::byte> bytes) {
    messages.push_back({bytes, {bytes.begin(), bytes.end()}});
    return messages.size();
  }
};

}  // namespace

TEST_CASE("memory: what an error leaves unfinished keeps the bytes that it uses") {
  mallopt(M_PERTURB, 0x5a);  // memory that is freed is overwritten; under AddressSanitizer (no such option) its use is an error
  const auto fails = [](const std::function<void(Transport&)>& body) {
    Unanswered transport;
    try {
      body(transport);
    } catch (const Error& e) {
      return e.code() == Exit::hung && !transport.messages.empty() && transport.unharmed();
    }
    return false;
  };
  CHECK(fails([](Transport& t) { static_cast<void>(control::gather(t, std::vector<std::byte>(1000, std::byte{1}))); }));
  CHECK(fails([](Transport& t) { control::to_first(t, {}, "to the first", [](int, std::span<const std::byte>) {}); }));
  CHECK(fails([](Transport& t) {
    const Mesh mesh({{"all", 2}}, std::vector<Device>(2));
    const Shape shape{{"rows", 64}, {"cols", 64}};
    const auto cut = [&](const char* dim) {
      return LaidOut{mesh, {shape, {{dim, Cut{.axes = {0}, .lists = {Partition::even(64, 2)}}}}}};
    };
    const std::vector<float> local(std::size_t{32} * 64, 1.0F);
    static_cast<void>(redistribute(std::span<const float>(local), cut("rows"), cut("cols"), t));
  }));
  mallopt(M_PERTURB, 0);
}
