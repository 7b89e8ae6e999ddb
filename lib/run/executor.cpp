// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/executor.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <unordered_map>

#include "base/at.h"
#include "base/clock.h"
#include "base/hash.h"
#include "plan/kernel_of.h"
#include "program/too_large.h"
#include "program/views.h"
#include "run/not_finite.h"
#include "run/peer_memory.h"
#include "run/staged_exchanges.h"
#include "run/step_trace.h"

namespace motley {

namespace {

constexpr double kPollEvery = 20e-6;  // seconds: asking MPI over TCP what has come takes about one microsecond

Index rounded(Index bytes) {
  return (bytes + 255) / 256 * 256;
}

}  // namespace

struct Executor::Bound {
  struct Message {
    int peer;
    std::span<std::byte> bytes;
    bool window = false;
  };
  struct Step {
    enum class Kind : std::uint8_t { kernel, post, wait } kind = Kind::kernel;
    Kernel* kernel = nullptr;
    std::vector<void*> operands{};
    int exchange = 0;
    std::vector<Message> sends{}, receives{};
    const char* name = "";
    bool flags_alone = false;  // a post that moves no bytes: its tens of nanoseconds count with the step after it
    double seconds = 0;
    Index runs = 0;
    std::unique_ptr<DeviceMemory::Mark> end{};   // on a device: after it in the compute queue
    const DeviceMemory::Mark* before = nullptr;  // what it ran after
  };
  struct Fed {
    const FedBuffer* feed;
    std::span<std::byte> staging;  // where the data is read to, row-major
    Kernel* reorder = nullptr;     // none: read in place
    std::vector<void*> operands{};
  };

  const Program& program;
  Backend& backend;
  Transport& transport;
  State& state;
  DeviceMemory* const device = backend.device_memory();
  std::unordered_map<std::size_t, std::vector<std::pair<KernelSpec, std::unique_ptr<Kernel>>>> kernels{};
  std::vector<Step> steps{};
  std::vector<Fed> fed{};
  std::span<std::byte> memory{};
  std::byte* workspace = nullptr;
  std::unique_ptr<PeerMemory> peers{};  // where the Program has windows
  bool half = false;                    // the last run ended after the forward half
  std::vector<std::vector<std::byte>> staging{};
  std::vector<DeviceMemory::Block> blocks{};  // on a device: what `memory` and the reordered feeds are in
  std::unique_ptr<StagedExchanges> staged{};  // on a device
  std::unique_ptr<DeviceMemory::Mark> start{};
  DeviceMemory::Mark* last = nullptr;                     // set last in the compute queue
  std::vector<std::vector<Transport::Ticket>> tickets{};  // by exchange
  std::vector<int> pending{};                             // exchanges posted and not waited for
  std::function<void(const char*)> callback{};
  StepTrace* trace = nullptr;

  // Messages that an error leaves unfinished go on reading and writing the buffers.
  ~Bound() {
    if (transport.idle()) return;
    for (const DeviceMemory::Block& block : blocks) transport.keep(block);
    for (const auto& [buffer, block] : state.memory()) transport.keep(block);
  }

  Kernel* kernel(const KernelSpec& spec, const std::string& implementation = {}) {  // one implementation per spec
    auto& same = kernels[hash_of(spec)];
    for (auto& [known, made] : same)
      if (known == spec) return made.get();
    same.emplace_back(spec, implementation.empty() ? backend.compile(spec) : backend.compile_as(spec, implementation));
    return same.back().second.get();
  }
  std::byte* address(const Place& place) const {
    const Buffer& b = at(program.buffers, place.buffer);
    std::byte* base = b.space == Space::state  ? state.buffer(place.buffer)
                      : b.space == Space::peer ? peers->address(place.buffer)
                                               : memory.data() + b.offset;
    return base + place.element * static_cast<Index>(bytes_of(b.dtype));
  }
  void take_memory();
  void bind_steps();
  void bind_feeds();
  void stage();
  void meet();
  void begin();
  double perform(Step& step);  // returns the seconds of a wait in which this rank's own device was at work
  void progress();             // the pending exchanges
  void settle(std::size_t from, std::size_t to, double begin);
  void record(std::size_t i, double from, double to) {
    if (trace != nullptr) trace->program_step(i, from, to);
  }
  // A buffer's bytes, where the host can read them: `room` takes a device's.
  const std::byte* host_bytes(int buffer, std::vector<std::byte>& room) const;
  Ran run(std::size_t from, std::size_t to, const std::function<void(int)>& after = {});
};

void Executor::Bound::take_memory() {
  std::size_t most = 0;
  for (auto& [hash, same] : kernels)
    for (auto& [spec, made] : same) most = std::max(most, made->workspace_bytes());
  const Index arena = rounded(program.arena_bytes), all = arena + rounded(static_cast<Index>(most)) + program.state_bytes;
  if (backend.memory_bytes() > 0 && all > backend.memory_bytes())
    throw DeviceError("this step needs " + std::to_string(all) + " bytes on this rank, the device has " +
                      std::to_string(backend.memory_bytes()) + "; " + too_large(program, backend.memory_bytes() - (all - arena)) +
                      "; use a smaller batch or give this rank a smaller part");
  const std::size_t flags = PeerMemory::flag_bytes(program, transport.size()),
                    private_bytes = static_cast<std::size_t>(arena + rounded(static_cast<Index>(most)));
  const std::size_t bytes = private_bytes + std::max<std::size_t>(flags, 64);
  if (device == nullptr) {
    memory = transport.allocate(bytes);
  } else {
    try {
      blocks.push_back(device->allocate(bytes));
    } catch (const DeviceError& e) {
      throw DeviceError(std::string(e.what()) + "; " + too_large(program, 0) +
                        "; use a smaller batch or give this rank a smaller part");
    }
    memory = {blocks.back().get(), bytes};
  }
  workspace = memory.data() + arena;
  if (!program.windows) return;
  const std::span<std::byte> shared =
      device == nullptr ? memory : transport.allocate(std::max<std::size_t>(flags, 64));  // a device has no part but the flags
  peers = std::make_unique<PeerMemory>(program, transport, shared, shared.last(std::max<std::size_t>(flags, 64)).first(flags));
}

void Executor::Bound::bind_steps() {
  for (const ProgramStep& s : program.steps)
    if (const auto* run = std::get_if<RunKernel>(&s.what)) kernel(run->spec, run->implementation);
  for (const FedBuffer& f : program.feeds) {
    const Buffer& b = at(program.buffers, f.buffer);
    const View view = view_of(b, f.buffer, b.box);
    Fed one{&f, {}, nullptr, {}};
    if (!is_dense(view, Format::plain)) {
      one.reorder = kernel(fold_of(FoldKind::copy, b.dtype, {dense_view(f.buffer, Format::plain, view.extents), view}));
      staging.emplace_back(static_cast<std::size_t>(volume(b.box)) * bytes_of(b.dtype) + 64);
    }
    fed.push_back(std::move(one));
  }
  take_memory();
  tickets.resize(program.exchange_names.size());
  for (const ProgramStep& s : program.steps) {
    Step step;
    if (const auto* run = std::get_if<RunKernel>(&s.what)) {
      step.kernel = kernel(run->spec);
      for (const Place& p : run->operands) step.operands.push_back(address(p));
      step.name = run->pass.c_str();
    } else if (const auto* post = std::get_if<Post>(&s.what)) {
      step.kind = Step::Kind::post;
      step.exchange = post->exchange;
      for (const Piece& p : post->sends)
        step.sends.push_back({p.peer, {address(p.at), static_cast<std::size_t>(p.bytes)}, p.window});
      for (const Piece& p : post->receives)
        step.receives.push_back({p.peer, {address(p.at), static_cast<std::size_t>(p.bytes)}, p.window});
      at(tickets, post->exchange).reserve(step.sends.size() + step.receives.size());
      auto is_flag = [](const Message& m) { return m.window; };
      step.flags_alone = std::all_of(step.sends.begin(), step.sends.end(), is_flag) &&
                         std::all_of(step.receives.begin(), step.receives.end(), is_flag);
    } else {
      step.kind = Step::Kind::wait;
      step.exchange = std::get<Wait>(s.what).exchange;
    }
    if (step.kind != Step::Kind::kernel) step.name = at(program.exchange_names, step.exchange).c_str();
    steps.push_back(std::move(step));
  }
  if (device != nullptr) stage();
}

void Executor::Bound::stage() {
  staged = std::make_unique<StagedExchanges>(*device, transport);
  start = device->make_mark();
  for (std::size_t i = 0; i < steps.size(); i++) {
    Step& s = steps[i];
    if (s.kind != Step::Kind::post) {
      s.end = device->make_mark();
      continue;
    }
    std::size_t waited = i;
    while (steps[waited].kind != Step::Kind::wait || steps[waited].exchange != s.exchange) waited++;
    auto staged_of = [](const std::vector<Message>& messages) {
      std::vector<StagedExchanges::Message> out;
      for (const Message& m : messages) {
        check(!m.window, "no rank reads a device's memory in place");
        out.push_back({m.peer, m.bytes});
      }
      return out;
    };
    staged->add(s.exchange, staged_of(s.sends), staged_of(s.receives), static_cast<int>(i), static_cast<int>(waited));
  }
  staged->allocate();
}

void Executor::Bound::bind_feeds() {
  std::size_t used = 0;
  for (Fed& f : fed) {
    const Buffer& b = at(program.buffers, f.feed->buffer);
    std::byte* to = address({f.feed->buffer, 0});
    const std::size_t bytes = static_cast<std::size_t>(volume(b.box)) * bytes_of(b.dtype);
    std::byte* from = to;
    if (f.reorder != nullptr) {
      from = staging[used++].data();
      f.operands = {from, to};
    }
    if (device != nullptr) {
      if (f.reorder == nullptr) {
        from = staging.emplace_back(bytes + 64).data();
        f.operands = {to};
      } else {
        blocks.push_back(device->allocate(bytes + 64));
        f.operands[0] = blocks.back().get();
      }
    }
    f.staging = {from, bytes};
  }
}

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
    for (const Message& m : s.sends) {  // first: others wait for them
      if (m.window)
        peers->tell(s.exchange, m.peer);
      else
        open.push_back(transport.send(m.peer, s.exchange, m.bytes));
    }
    for (const Message& m : s.receives)
      open.push_back(m.window ? peers->await(s.exchange, m.peer, static_cast<Index>(m.bytes.size()))
                              : transport.receive(m.peer, s.exchange, m.bytes));
    if (!open.empty()) pending.push_back(s.exchange);  // no one waits where flags alone were set
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

void Executor::Bound::progress() {
  if (device != nullptr) return staged->progress();
  for (int e : pending) {  // one test that fails lets all messages move
    auto& open = at(tickets, e);
    while (!open.empty()) {
      if (!transport.test(open.back())) return;
      open.pop_back();
    }
  }
}

// Until the device has done all it was given; then its kernels' seconds are known. Its queue was empty at `begin`, the start mark;
// each step's mark counts from the one before, so that their seconds add up to when a kernel ran.
void Executor::Bound::settle(std::size_t from, std::size_t to, double begin) {
  wait(transport, {}, "the device", [&] { return last->passed(); });
  double now = begin;
  for (std::size_t i = from; i < to; i++) {
    Step& s = steps[i];
    if (s.kind == Step::Kind::post) continue;
    const double took = s.end->seconds_since(*s.before);
    if (s.kind == Step::Kind::kernel) {
      s.seconds += took;
      record(i, now, now + took);
    }
    now += took;
  }
}

// After a half run peers may still read what it wrote: all ranks meet before it is written again.
void Executor::Bound::meet() {
  if (peers != nullptr && half) static_cast<void>(transport.gather_all({}));
  half = false;
}

// Before the forward half.
void Executor::Bound::begin() {
  meet();
  if (peers != nullptr) peers->next_run();
  half = true;
}

Ran Executor::Bound::run(std::size_t from, std::size_t to, const std::function<void(int)>& after) {
  Ran out;
  const Index before = transport.bytes_received();
  const double begin = seconds_now();
  double now = begin, polled = begin;
  if (device != nullptr) {
    start->set(DeviceMemory::Queue::compute);
    last = start.get();
  }
  for (std::size_t i = from; i < to; i++) {
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
    if (s.kind != Step::Kind::kernel || pending.empty() || then - polled < kPollEvery) continue;
    progress();
    polled = now = seconds_now();
    out.polling_seconds += now - then;
  }
  out.busy_seconds += out.polling_seconds;
  if (device != nullptr) {
    settle(from, to, begin);
    out.busy_seconds += seconds_now() - now;
    now = seconds_now();
  }
  out.seconds = now - begin;
  out.bytes_received = transport.bytes_received() - before;
  return out;
}

const std::byte* Executor::Bound::host_bytes(int buffer, std::vector<std::byte>& room) const {
  if (device == nullptr) return address({buffer, 0});
  room.resize(static_cast<std::size_t>(at(program.buffers, buffer).bytes));
  copy_and_wait(*device, room.data(), address({buffer, 0}), room.size());
  return room.data();
}

Executor::Executor(const Program& program, Backend& backend, Transport& transport, State& state)
    : bound_(new Bound{program, backend, transport, state}) {
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

Ran Executor::run() {
  bound_->begin();
  bound_->half = false;
  return bound_->run(0, bound_->steps.size());
}
Ran Executor::run_forward(const std::function<void(int)>& after) {
  bound_->begin();
  return bound_->run(0, static_cast<std::size_t>(bound_->program.forward_steps), after);
}
Ran Executor::run_backward() {
  bound_->half = false;
  return bound_->run(static_cast<std::size_t>(bound_->program.forward_steps), bound_->steps.size());
}

int Executor::first_not_finite() {
  const Program& program = bound_->program;
  int first = -1;
  std::unordered_map<int, int> tensor_of;  // by main buffer
  for (std::size_t t = 0; t < program.main_buffer.size(); t++)
    if (program.main_buffer[t] >= 0) tensor_of[program.main_buffer[t]] = static_cast<int>(t);
  std::vector<std::byte> room;
  for (const FedBuffer& f : program.feeds)
    if (first < 0 && !is_finite(program, f.buffer, bound_->host_bytes(f.buffer, room))) first = f.tensor;
  if (first < 0) first = first_parameter_not_finite();
  run_forward([&](int step) {
    const auto* run = std::get_if<RunKernel>(&at(program.steps, step).what);
    if (first >= 0 || run == nullptr) return;
    const int buffer = run->operands.back().buffer;
    const auto tensor = tensor_of.find(buffer);
    if (tensor != tensor_of.end() && !is_finite(program, *run, bound_->host_bytes(buffer, room))) first = tensor->second;
  });
  return first;
}

int Executor::first_parameter_not_finite() const {
  std::vector<std::byte> room;
  for (const Slice& s : bound_->program.slices)
    if (!is_finite(bound_->program, s.value, bound_->host_bytes(s.value, room))) return s.tensor;
  return -1;
}

void Executor::record_into(StepTrace* trace) {
  bound_->trace = trace;
}

void Executor::on_step(std::function<void(const char*)> callback) {
  bound_->callback = std::move(callback);
}

std::vector<double> Executor::read(int buffer, const Box& box) const {
  const Buffer& b = at(bound_->program.buffers, buffer);
  const View view = view_of(b, buffer, box);
  std::vector<std::byte> room;
  const std::byte* base = bound_->host_bytes(buffer, room) + view.element * static_cast<Index>(bytes_of(b.dtype));
  std::vector<double> out(static_cast<std::size_t>(volume(box)));
  std::size_t k = 0;
  for_each_index(box, [&](const std::vector<Index>& here) {
    const Index element = element_of(view, box, here);
    if (b.dtype == DType::f64)
      out[k] = reinterpret_cast<const double*>(base)[element];
    else if (b.dtype == DType::f32)
      out[k] = static_cast<double>(reinterpret_cast<const float*>(base)[element]);
    else
      out[k] = static_cast<double>(reinterpret_cast<const std::int32_t*>(base)[element]);
    k++;
  });
  return out;
}

std::uint64_t Executor::hash(int buffer, const Box& box, Format order) const {
  const Buffer& b = at(bound_->program.buffers, buffer);
  const View view = view_of(b, buffer, box);
  std::vector<std::byte> room;
  const std::size_t item = bytes_of(b.dtype);
  const std::byte* const base = bound_->host_bytes(buffer, room) + static_cast<std::size_t>(view.element) * item;
  if (is_dense(view, order)) return hash_bytes(base, static_cast<std::size_t>(volume(box)) * item);
  std::vector<std::size_t> dims(box.size());  // outer to inner
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  if (order != Format::plain && dims.size() > 2) std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  const std::size_t last = dims.back();
  const Index run = view.extents[last], step = view.strides[last];
  Box rows;
  for (std::size_t d : dims) rows.push_back(box[d]);
  if (run > 1) rows.back().end = rows.back().begin + 1;
  std::vector<Index> here(box.size());
  Hash hash;
  for_each_index(rows, [&](const std::vector<Index>& row) {
    for (std::size_t d = 0; d < dims.size(); d++) here[dims[d]] = row[d];
    const std::byte* from = base + static_cast<std::size_t>(element_of(view, box, here)) * item;
    if (step == 1) return hash.bytes(from, static_cast<std::size_t>(run) * item);
    for (Index k = 0; k < run; k++, from += static_cast<std::size_t>(step) * item) hash.bytes(from, item);
  });
  return hash.value();
}

void Executor::write(int buffer, const Box& box, const std::vector<double>& values) {
  const Buffer& b = at(bound_->program.buffers, buffer);
  check(b.dtype != DType::i32 && values.size() == static_cast<std::size_t>(volume(box)), "reals of the box are written");
  const View view = view_of(b, buffer, box);
  std::vector<std::byte> room;
  std::byte* const first =
      bound_->device == nullptr ? bound_->address({buffer, 0}) : const_cast<std::byte*>(bound_->host_bytes(buffer, room));
  std::byte* const base = first + view.element * static_cast<Index>(bytes_of(b.dtype));
  std::size_t k = 0;
  for_each_index(box, [&](const std::vector<Index>& here) {
    const Index element = element_of(view, box, here);
    if (b.dtype == DType::f64)
      reinterpret_cast<double*>(base)[element] = values[k];
    else
      reinterpret_cast<float*>(base)[element] = static_cast<float>(values[k]);
    k++;
  });
  if (bound_->device != nullptr) copy_and_wait(*bound_->device, bound_->address({buffer, 0}), room.data(), room.size());
}

Index Executor::memory_bytes() const {
  return static_cast<Index>(bound_->memory.size()) + bound_->program.state_bytes;
}

std::vector<Executor::Spent> Executor::spent() const {
  std::vector<Spent> out;
  for (std::size_t i = 0; i < bound_->steps.size(); i++) {
    const Bound::Step& s = bound_->steps[i];
    const auto* run = std::get_if<RunKernel>(&bound_->program.steps[i].what);
    out.push_back(
        {s.name, s.kernel != nullptr ? s.kernel->implementation() : "exchange", s.seconds, s.runs, run != nullptr && run->moves});
  }
  return out;
}

}  // namespace motley
