// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>

#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "run/bound_program.h"

namespace motley {

namespace {

constexpr double kPollEvery = 20e-6;  // seconds: polling MPI over TCP takes about one microsecond

}  // namespace

double Executor::Bound::perform(Step& s) {
  double own = 0;
  if (callback) callback(s.name);
  if (s.kind == Step::Kind::kernel) {
    s.kernel->run(s.operands, workspace);
  } else if (s.kind == Step::Kind::post && device != nullptr) {
    staged->post(s.exchange);
    pending.push_back(s.exchange);
    return 0;
  } else if (s.kind == Step::Kind::post) {
    auto& open = at(tickets, s.exchange);
    open.clear();
    if (s.signals) peers->signal(s.exchange);  // first: other ranks wait for it
    for (const Message& m : s.sends)
      if (!m.window) open.push_back(transport.send(m.peer, s.exchange, m.bytes));
    for (const Message& m : s.receives)
      open.push_back(m.window ? peers->await(s.exchange, m.peer, static_cast<Index>(m.bytes.size()))
                              : transport.receive(m.peer, s.exchange, m.bytes));
    if (!open.empty()) pending.push_back(s.exchange);  // if only flags were set there is nothing to wait for
  } else {
    std::erase(pending, s.exchange);
    if (device != nullptr)
      own = staged->wait(s.exchange, s.name);
    else
      wait(transport, at(tickets, s.exchange), at(program.exchange_names, s.exchange));
  }
  if (device != nullptr) {
    s.before = last;
    s.end->set(DeviceMemory::Queue::compute);
    last = s.end.get();
  }
  return own;
}

// Each kernel's seconds are those of all its blocks; in the record kernels follow each other.
double Executor::Bound::run_chain(const Chain& chain, double begin) {
  const std::span<Step> all =
      std::span(steps).subspan(static_cast<std::size_t>(chain.begin), static_cast<std::size_t>(chain.end - chain.begin));
  std::vector<double>& took = chain_seconds;
  took.assign(all.size(), 0);
  double now = begin;
  for (Index block = 0; block < chain.blocks; block++)
    for (std::size_t i = 0; i < all.size(); i++) {
      Step& s = all[i];
      if (block == 0 && callback) callback(s.name);
      (block + 1 < chain.blocks ? s.kernel : s.last)->run(s.operands, workspace);
      for (std::size_t k = 0; k < s.operands.size(); k++)
        s.operands[k] =
            static_cast<std::byte*>(s.operands[k]) + (block + 1 < chain.blocks ? s.advance[k] : -(block * s.advance[k]));
      const double then = seconds_now();
      took[i] += then - now;
      now = then;
    }
  for (std::size_t i = 0; i < all.size(); i++) {
    record(static_cast<std::size_t>(chain.begin) + i, begin, begin + took[i]);
    begin += took[i];
    all[i].seconds += took[i];
    all[i].runs++;
  }
  return now;
}

void Executor::Bound::progress() {
  if (device != nullptr) return staged->progress();
  for (int e : pending) {  // testing one unfinished message lets all messages progress
    auto& open = at(tickets, e);
    while (!open.empty()) {
      if (!transport.test(open.back())) return;
      open.pop_back();
    }
  }
}

// Waits until the device has done everything enqueued, which makes its kernels' seconds known. The queue was empty at `begin`, the
// start mark; each step's mark counts from the previous one, so that the sums give when a kernel ran.
void Executor::Bound::settle(std::size_t from, std::size_t to, double begin) {
  wait(transport, {}, "the device", [&] { return last->passed(); });
  double now = begin;
  for (std::size_t i = from; i < to; i++) {
    Step& s = steps[i];
    if (s.kind == Step::Kind::post || is_done(i)) continue;
    const double took = s.end->seconds_since(*s.before);
    if (s.kind == Step::Kind::kernel) {
      s.seconds += took;
      record(i, now, now + took);
    }
    now += took;
  }
}

// After a partial run peers may still read what it wrote: all ranks synchronize before it is written again.
void Executor::Bound::meet() {
  if (peers != nullptr && partial) static_cast<void>(transport.gather_all({}));
  partial = false;
}

// Called before the forward half.
void Executor::Bound::begin() {
  meet();
  if (peers != nullptr) peers->next_run();
  partial = true;
  steady = program.micro_batches == 1 && seen == state.changes();
}

Ran Executor::Bound::run(std::size_t from, std::size_t to, const std::function<void(int)>& after) {
  Ran out;
  in_run = true;
  const Index before = transport.bytes_received();
  const double begin = seconds_now();
  double now = begin, polled = begin;
  if (device != nullptr) {
    start->set(DeviceMemory::Queue::compute);
    last = start.get();
  }
  const auto poll = [&](double then) {
    if (pending.empty() || then - polled < kPollEvery) return;
    progress();
    polled = now = seconds_now();
    out.polling_seconds += now - then;
  };
  for (std::size_t i = from; i < to; i++) {
    if (is_done(i)) {
      if (!steady) continue;
      record(i, now, now);
      if (after) after(static_cast<int>(i));
      continue;
    }
    if (const Chain* chain = chains[i]; chain != nullptr) {
      const double then = run_chain(*chain, now);
      for (int c = chain->begin; after && c < chain->end; c++) after(c);
      i = static_cast<std::size_t>(chain->end) - 1;
      out.busy_seconds += then - now;
      poll(now = after ? seconds_now() : then);
      continue;
    }
    Step& s = steps[i];
    const double own = perform(s);
    if (after) after(static_cast<int>(i));
    s.runs++;
    if (s.flags_alone) {
      record(i, now, now);
      continue;
    }
    const double then = seconds_now(), took = then - now - own;
    record(i, now, then);
    out.busy_seconds += own;
    (s.kind == Step::Kind::wait ? out.waiting_seconds : out.busy_seconds) += took;
    if (device == nullptr || s.kind != Step::Kind::kernel) s.seconds += took;
    now = then;
    if (s.kind == Step::Kind::kernel) poll(then);
  }
  out.busy_seconds += out.polling_seconds;
  if (device != nullptr) {
    settle(from, to, begin);
    out.busy_seconds += seconds_now() - now;
    now = seconds_now();
  }
  out.seconds = now - begin;
  out.bytes_received = transport.bytes_received() - before;
  in_run = false;
  return out;
}

// Includes the ranks' meeting between the norms and the values scaled by them.
Ran Executor::Bound::run_to_end(std::size_t from) {
  if (!program.directs) return run(from, steps.size());
  const auto move = static_cast<std::size_t>(program.move_begin);
  Ran out = run(from, move);
  const double begin = seconds_now();
  share_ratios();
  const double end = seconds_now(), seconds = end - begin;
  record(steps.size(), begin, end);
  out += {.seconds = seconds, .waiting_seconds = seconds};
  return out += run(move, steps.size());
}

Ran& Ran::operator+=(const Ran& other) {
  seconds += other.seconds;
  busy_seconds += other.busy_seconds;
  waiting_seconds += other.waiting_seconds;
  polling_seconds += other.polling_seconds;
  bytes_received += other.bytes_received;
  return *this;
}

Executor::Executor(const Program& program, Backend& backend, Transport& transport, State& state, const std::string& slot)
    : bound_(new Bound{program, backend, transport, state, slot}) {
  bound_->bind_steps();
  bound_->bind_feeds();
}
Executor::~Executor() = default;

void Executor::feed(const std::function<void(const std::string&, const Box&, std::span<std::byte>)>& read) {
  bound_->meet();
  for (Bound::Fed& f : bound_->fed) {
    read(f.feed->name, at(bound_->program.buffers, f.feed->buffer).box, f.staging);
    if (bound_->device != nullptr) copy_and_wait(*bound_->device, f.operands.front(), f.staging.data(), f.staging.size());
    if (f.reorder != nullptr) f.reorder->run(f.operands, bound_->workspace);
  }
}

Ran Executor::run(const std::function<void(int)>& after) {
  bound_->follows = false;
  bound_->begin();
  bound_->partial = false;
  const auto update = static_cast<std::size_t>(bound_->program.update_begin);
  Ran out = after ? bound_->run(0, update, after) : bound_->run_to_end(0);
  if (after) out += bound_->run_to_end(update);
  bound_->seen = bound_->state.changes();
  return out;
}
Ran Executor::run_forward(const std::function<void(int)>& after) {
  bound_->begin();
  return bound_->run(0, static_cast<std::size_t>(bound_->program.forward_steps), after);
}
Ran Executor::run_backward(const std::function<void(int)>& after) {
  const Program& program = bound_->program;
  bound_->partial = program.micro_batches == 1;  // else another micro-batch may follow (lib/program/settle.cpp)
  const Ran out =
      bound_->run(static_cast<std::size_t>(program.forward_steps), static_cast<std::size_t>(program.combine_begin), after);
  bound_->follows = program.micro_batches > 1;
  bound_->seen = bound_->state.changes();
  return out;
}
Ran Executor::run_combine() {
  const Program& program = bound_->program;
  bound_->follows = false;
  bound_->partial = true;
  return bound_->run(static_cast<std::size_t>(program.combine_begin), static_cast<std::size_t>(program.update_begin));
}
void Executor::drop_micro_batches() {
  if (bound_->follows) static_cast<void>(run_combine());
}
Ran Executor::run_update() {
  bound_->partial = false;
  return bound_->run_to_end(static_cast<std::size_t>(bound_->program.update_begin));
}

void Executor::record_into(StepTrace* trace) {
  bound_->trace = trace;
}

void Executor::on_step(std::function<void(const char*)> callback) {
  bound_->callback = std::move(callback);
}

Index Executor::memory_bytes() const {
  return static_cast<Index>(bound_->memory.size()) + bound_->program.state_bytes;
}

std::vector<Executor::Spent> Executor::spent() const {
  std::vector<Spent> out;
  for (std::size_t i = 0; i < bound_->steps.size(); i++) {
    const Bound::Step& s = bound_->steps[i];
    out.push_back({s.name, s.kernel != nullptr ? s.kernel->implementation() : "exchange", s.seconds, s.runs});
  }
  return out;
}

}  // namespace motley
