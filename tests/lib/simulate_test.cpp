// SPDX-License-Identifier: Apache-2.0
#include <motley/program.h>
#include <catch2/catch.hpp>
#include <cmath>

#include "plan/kernel_of.h"
#include "program/overlap.h"

using namespace motley;

namespace {

KernelSpec update(Index elements) {
  return elements_kernel({}, DType::f32, elements, {DType::f32, DType::f32});
}

// Rank 0 computes 4 s, then sends 1000 bytes; rank 1 computes 1 s, receives them and computes 1 s more.
std::vector<Program> two_ranks() {
  std::vector<Program> out(2);
  const Place nowhere{0, 0};
  for (Program& p : out) p.exchange_names = {"message"};
  out[0].steps = {{RunKernel{update(4), {}, "first", Purpose::pass}}, {Post{0, {{1, nowhere, 1000}}, {}}}, {Wait{0}}};
  out[1].steps = {{RunKernel{update(1), {}, "first", Purpose::pass}},
                  {Post{0, {}, {{0, nowhere, 1000}}}},
                  {Wait{0}},
                  {RunKernel{update(1), {}, "then", Purpose::pass}}};
  return out;
}

Profile one_second_an_element(double alone_over_shared) {
  Profile profile;
  profile.devices.resize(2);
  for (int d = 0; d < 2; d++) {
    profile.devices[static_cast<std::size_t>(d)].alone_over_shared = alone_over_shared;
    for (Index n : {1, 4})
      profile.add({d, update(n), {static_cast<double>(n), static_cast<double>(n), static_cast<double>(n), 1}, ""});
  }
  profile.links = {{0, 1, {{1 << 20, 0.5, 1000}}}};
  return profile;
}

}  // namespace

TEST_CASE("virtual time: kernels, one message and who waits for it") {
  const Simulated s = simulate(two_ranks(), one_second_an_element(1));
  CHECK(s.step_seconds == Approx(4 + 0.5 + 1 + 1));
  CHECK(s.busy_seconds[0] == Approx(4));
  CHECK(s.busy_seconds[1] == Approx(2));
  CHECK(s.waiting_seconds[1] == Approx(3 + 1.5));
}

TEST_CASE("virtual time: of several training steps the last, while a rank that is done has begun the next") {
  const Simulated s = simulate(two_ranks(), one_second_an_element(1), {.timeline = true, .steps = 3});
  CHECK(s.step_seconds == Approx(4));
  CHECK(s.busy_seconds[0] == Approx(4));
  CHECK(s.waiting_seconds[0] == Approx(0));
  CHECK(s.busy_seconds[1] == Approx(2));
  CHECK(s.waiting_seconds[1] == Approx(2));
  CHECK(s.timeline[0].front().begin == Approx(0));
  CHECK(s.timeline[1].front().begin == Approx(2.5));
}

TEST_CASE("virtual time: the timeline says when each step of each Program began and ended") {
  CHECK(simulate(two_ranks(), one_second_an_element(1)).timeline.empty());
  const Simulated s = simulate(two_ranks(), one_second_an_element(1), {.timeline = true});
  const auto is = [&](std::size_t rank, std::size_t step, double begin, double end) {
    CHECK(s.timeline[rank][step].begin == Approx(begin));
    CHECK(s.timeline[rank][step].end == Approx(end));
  };
  REQUIRE(s.timeline.size() == 2);
  REQUIRE(s.timeline[0].size() == 3);
  REQUIRE(s.timeline[1].size() == 4);
  is(0, 0, 0, 4);
  is(0, 1, 4, 4);
  is(0, 2, 4, 4);
  is(1, 0, 0, 1);
  is(1, 1, 1, 1);
  is(1, 2, 1, 5.5);  // posted at 4 s by rank 0; 0.5 s and 1000 bytes at 1000 bytes/s
  is(1, 3, 5.5, 6.5);
}

TEST_CASE("virtual time: a rank is faster while the other rank of its host rests, and only then") {
  Profile profile = one_second_an_element(0.5);
  const Simulated shared = simulate(two_ranks(), profile);
  CHECK(shared.busy_seconds[0] == Approx(1 + 3 * 0.5));  // rank 1 waits after its first second
  CHECK(shared.busy_seconds[1] == Approx(1 + 0.5));
  CHECK(shared.step_seconds == Approx(2.5 + 1.5 + 0.5));
  std::vector<Program> with_idle = two_ranks();
  with_idle.emplace_back().exchange_names = {"message"};
  CHECK(simulate(with_idle, profile).step_seconds == shared.step_seconds);  // a third rank, which the profile does not have
  profile.devices.emplace_back().alone_over_shared = 0.5;
  CHECK(simulate(with_idle, profile).busy_seconds[0] == Approx(1 * 0.75 + 3 * 0.5));  // one of two others computes, then none
  profile.devices.pop_back();
  profile.devices[1].host = "another";
  CHECK(simulate(two_ranks(), profile).step_seconds == Approx(4 + 1.5 + 1));
}

TEST_CASE("virtual time: a message travels while kernels run, one after the other") {
  auto programs = two_ranks();
  std::swap(programs[0].steps[0], programs[0].steps[1]);  // rank 0 sends first
  programs[1].steps = {{Post{0, {}, {{0, {0, 0}, 1000}}}},
                       {RunKernel{update(1), {}, "first", Purpose::pass}},
                       {Wait{0}},
                       {RunKernel{update(1), {}, "then", Purpose::pass}}};
  const Profile profile = one_second_an_element(1);
  const Simulated hidden = simulate(programs, profile);
  CHECK(hidden.waiting_seconds[1] == Approx(0.5));  // 1.5 s of a message, 1 s of them after the first kernel
  CHECK(hidden.step_seconds == Approx(4));
  programs[0].steps.insert(programs[0].steps.begin() + 1, {Post{1, {{1, {0, 0}, 500}}, {}}});
  programs[0].steps.push_back({Wait{1}});
  programs[1].steps.insert(programs[1].steps.begin() + 1, {Post{1, {}, {{0, {0, 0}, 500}}}});
  programs[1].steps.push_back({Wait{1}});
  const Simulated both = simulate(programs, profile);
  CHECK(both.waiting_seconds[1] == Approx(0.5));  // the second arrives at 1.5 + 1.0, when the last kernel ends
  CHECK(both.waiting_seconds[0] == Approx(0));
}

TEST_CASE("virtual time: pieces from a device to a device are copied out, sent and copied in, one while the next travels") {
  std::vector<Program> programs(2);
  const Place nowhere{0, 0};
  const std::vector<Piece> pieces(3, Piece{1, nowhere, 1000}), arriving(3, Piece{0, nowhere, 1000});
  programs[0].steps = {{RunKernel{update(4), {}, "first", Purpose::pass}}, {Post{0, pieces, {}}}, {Wait{0}}};
  programs[1].steps = {{Post{0, {}, arriving}}, {RunKernel{update(1), {}, "meanwhile", Purpose::pass}}, {Wait{0}}};
  Profile profile = one_second_an_element(1);
  profile.links = {{0, 1, {{1 << 20, 0, 1000}}}};
  CHECK(simulate(programs, profile).step_seconds == Approx(4 + 3 * 1));
  profile.device_links = {{0, {{1 << 20, 9, 1e9}}, {{1 << 20, 0, 500}}}};  // 2 s out for each, 1 s on the way
  CHECK(simulate(programs, profile).step_seconds == Approx(4 + 3 * 2 + 1));
  profile.device_links.push_back({1, {{1 << 20, 0, 250}}, {{1 << 20, 9, 1e9}}});  // 4 s in for each
  CHECK(simulate(programs, profile).step_seconds == Approx(4 + 2 + 1 + 3 * 4));
}

namespace {

RunKernel kernel(const std::string& name, int reads, int also, int writes) {
  KernelSpec spec;
  spec.op = KernelOp::dense;
  return {spec, {{reads, 0}, {also, 0}, {writes, 0}}, name};
}

// The order of the steps where exchange 0, and exchange 1 that waits for it, go on.
std::string order(Beside beside) {
  Program program;
  for (int b = 0; b < 8; b++) {
    program.buffers.push_back({"buffer " + std::to_string(b)});
    program.buffers.back().bytes = 4;
  }
  const int own = 0, comes = 1, w = 2;
  program.steps = {{kernel("own", w, w, own)},
                   {Post{0, {{1, {own, 0}, 4}}, {{1, {comes, 0}, 4}}}},
                   {Wait{0}},
                   {kernel("needs it", comes, w, 3)},
                   {kernel("for later", own, w, 7)},
                   {kernel("needs nothing of it", own, w, 4)},
                   {kernel("needs both", 3, 4, 5)},
                   {Post{1, {{1, {5, 0}, 4}}, {}}},
                   {kernel("after a send", own, w, 6)},
                   {Wait{1}}};
  overlap(
      program, [&](const Post&) { return beside; }, HUGE_VAL);
  std::string out;
  for (const ProgramStep& s : program.steps) {
    if (const auto* run = std::get_if<RunKernel>(&s.what)) out += run->pass + ", ";
    if (const auto* post = std::get_if<Post>(&s.what)) out += "post " + std::to_string(post->exchange) + ", ";
    if (const auto* wait = std::get_if<Wait>(&s.what)) out += "wait " + std::to_string(wait->exchange) + ", ";
  }
  return out;
}

}  // namespace

TEST_CASE(
    "exchanges that go on: kernels that nothing waits for come after a send, and before a wait, but not where a send waits for "
    "that") {
  const std::string as_it_was =
      "own, post 0, wait 0, needs it, for later, needs nothing of it, needs both, post 1, after a send, wait 1, ";
  CHECK(order(Beside::nothing) == as_it_was);
  CHECK(order(Beside::other_kernels) == as_it_was);
  CHECK(order(Beside::in_order_of_need) ==
        "own, post 0, needs nothing of it, wait 0, needs it, needs both, post 1, for later, after a send, wait 1, ");
}

TEST_CASE("virtual time: ranks meet before the update, and once more where it moves by norms") {
  std::vector<Program> both(2);
  for (std::size_t r = 0; r < 2; r++) {
    both[r].steps = {{RunKernel{update(r == 0 ? 4 : 1), {}, "gradients", Purpose::pass}},
                     {RunKernel{update(1), {}, "update", Purpose::update}},
                     {RunKernel{update(1), {}, "move", Purpose::update}}};
    both[r].forward_steps = both[r].combine_begin = both[r].update_begin = 1;
    both[r].move_begin = 2;
  }
  const double once = simulate(both, one_second_an_element(1)).step_seconds;
  CHECK(once > 4 + 2 + 0.5);  // the link's latency
  for (Program& p : both) p.directs = true;
  const Simulated twice = simulate(both, one_second_an_element(1), {.timeline = true, .steps = 2});
  CHECK(twice.step_seconds == Approx(once + (once - 6)));
  CHECK(twice.timeline[1][2].begin - twice.timeline[1][1].end == Approx(once - 6));
  both[1].steps.resize(1);  // a rank that owns nothing comes too
  both[1].move_begin = 1;
  CHECK(simulate(both, one_second_an_element(1)).step_seconds == Approx(once + (once - 6)));
}

TEST_CASE("virtual time: micro-batches leave out what runs once, and a rank without a part in them agrees") {
  std::vector<Program> both(2);
  const auto run = [](Index seconds) { return RunKernel{update(seconds), {}, "kernel", Purpose::pass}; };
  both[0].steps = {{run(4), true}, {run(1)}, {run(1), true}, {run(1)}};
  both[0].forward_steps = 2;
  both[0].combine_begin = both[0].update_begin = both[0].move_begin = 3;
  for (Program& p : both) p.micro_batches = 3;
  const Simulated s = simulate(both, one_second_an_element(1), {.timeline = true});
  CHECK(s.busy_seconds[0] == Approx(4 + 3 * 1 + 1 + 1));
  CHECK(s.timeline[0][0].begin == Approx(0));
  CHECK(s.timeline[0][2].end == Approx(6));
  CHECK(s.timeline[0][1].end == Approx(8));
  CHECK(s.timeline[0][3].end == Approx(s.step_seconds));
}
