// SPDX-License-Identifier: Apache-2.0
#include "tests/support/run_plan.h"
#include "tests/support/each_index.h"

#include <motley/executor.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "base/random.h"
#include "plan/plan_data.h"
#include "run/gather.h"
#include "tests/support/device_transport.h"
#include "tests/support/fake_device.h"
#include "train/keys.h"

namespace motley {

namespace {

template <class T, class F>
void fill(std::span<std::byte> out, const Box& box, const Shape& shape, F value) {
  auto* p = reinterpret_cast<T*>(out.data());
  for_each_index(box, [&](const std::vector<Index>& i) { *p++ = static_cast<T>(value(position_of(shape, i))); });
}

// Weights in -2..2 by global index.
void integer_weights(const Plan& plan, const Program& program, Executor& executor) {
  for (const Slice& s : program.slices) {
    const Box& box = program.buffers[static_cast<std::size_t>(s.value)].box;
    const Shape& shape = plan.data().passes.tensors[static_cast<std::size_t>(s.tensor)].shape;
    std::vector<double> values;
    for_each_index(box,
                   [&](const std::vector<Index>& i) { values.push_back(static_cast<double>(position_of(shape, i) * 7 % 5 - 2)); });
    executor.write(s.value, box, values);
  }
}

}  // namespace

void spread_constants(const Plan& plan, const Program& program, Executor& executor) {
  for (const Slice& s : program.slices) {
    const StepTensor& t = plan.data().passes.tensors[static_cast<std::size_t>(s.tensor)];
    if (t.initial < Initial::zeros || plan.data().passes.statistic(s.tensor) != nullptr) continue;
    const RandomStream stream(7, t.name);
    std::vector<double> values;
    for_each_index(s.box, [&](const std::vector<Index>& i) {
      values.push_back(0.75 + 0.5 * stream.uniform(static_cast<std::uint64_t>(position_of(t.shape, i))));
    });
    executor.write(s.value, s.box, values);
  }
}

namespace {

// Messages from and to devices, which go in pieces, in smaller ones.
void cut_pieces(Program& program, const Plan& plan, Index piece_bytes) {
  const std::vector<bool>& on_device = plan.data().on_device;
  auto is_on_device = [&](int rank) { return on_device[static_cast<std::size_t>(rank)]; };
  for (ProgramStep& s : program.steps)
    if (auto* post = std::get_if<Post>(&s.what))
      for (auto* pieces : {&post->sends, &post->receives})
        for (const Piece& whole : std::exchange(*pieces, {})) {
          const Index item = static_cast<Index>(bytes_of(program.buffers[static_cast<std::size_t>(whole.at.buffer)].dtype));
          const bool staged = !whole.window && (is_on_device(program.rank) || is_on_device(whole.peer));
          const Index most = staged ? std::max(piece_bytes / item * item, item) : whole.bytes;
          Piece piece = whole;
          do {
            piece.bytes = std::min(most, whole.bytes - (piece.at.element - whole.at.element) * item);
            pieces->push_back(piece);
            piece.at.element += piece.bytes / item;
          } while ((piece.at.element - whole.at.element) * item < whole.bytes);
        }
}

void one_rank(const Plan& plan, const RunOptions& options, Transport& wires, Outcome& out, std::mutex& lock) {
  const Passes& passes = plan.data().passes;
  const Device& device = plan.mesh().device(wires.rank());
  auto backend = options.real_devices ? open_backend(device) : options.cpu_backend ? open_backend(Device{}) : reference_backend();
  if (has_own_memory(device) && !options.real_devices)
    backend = testing::fake_device(std::move(backend), options.seed + static_cast<std::uint64_t>(wires.rank()));
  const bool direct = options.device_messages && backend->device_memory() != nullptr;
  const auto of_device = direct ? testing::with_device_memory(wires, *backend->device_memory()) : nullptr;
  Transport& transport = direct ? *of_device : wires;
  CompileOptions compiled = options.program;
  compiled.keep_gradients = true;
  compiled.hosts = transport.hosts();
  const int logits = passes.logits();
  if (logits >= 0) compiled.keep.push_back(logits);
  Program program = compile(plan, transport.rank(), compiled);
  cut_pieces(program, plan, options.piece_bytes);
  State state(plan, program.rank, options.seed, backend->device_memory());
  Executor executor(program, *backend, transport, state);
  if (options.integers)
    integer_weights(plan, program, executor);
  else
    spread_constants(plan, program, executor);
  std::minstd_rand random(options.restless + static_cast<unsigned>(transport.rank()));
  if (options.restless > 0)
    executor.on_step([&](const char*) {
      if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    });
  const Index classes = logits < 0 ? 1 : passes.tensors[static_cast<std::size_t>(logits)].shape.dims().back().size;
  Outcome mine;
  const double scale = options.integers ? 3.0 : 1.0;
  auto value = [&](const RandomStream& stream, Index g) {
    const double u = scale * (2 * stream.uniform(static_cast<std::uint64_t>(g)) - 1);
    return options.integers ? std::round(u) : u;
  };
  for (int s = 0; s < options.steps; s++) {
    auto feed = [&](const std::string& name, const Box& box, std::span<std::byte> bytes) {
      const StepTensor& t = passes.tensors[static_cast<std::size_t>(passes.find(name))];
      if (t.role == TensorRole::key) return random_keys(options.seed, name, s + 1)(box, bytes);
      const RandomStream stream(options.seed, name);
      if (t.dtype == DType::i32)
        fill<std::int32_t>(bytes, box, t.shape, [&](Index g) {
          return stream.bits(static_cast<std::uint64_t>(g)) % static_cast<std::uint32_t>(classes);
        });
      else if (program.dtype == DType::f64)
        fill<double>(bytes, box, t.shape, [&](Index g) { return value(stream, g); });
      else
        fill<float>(bytes, box, t.shape, [&](Index g) { return value(stream, g); });
    };
    if (options.restless > 0) {  // a forward half that is not followed up, as an evaluation does it
      executor.feed(feed);
      executor.run_forward();
    }
    Ran ran;
    for (int m = 0; m < program.micro_batches && program.micro_batches > 1; m++) {
      executor.feed(feed);
      ran += executor.run_forward();
      ran += executor.run_backward();
    }
    if (program.micro_batches > 1) {
      ran += executor.run_combine();
      ran += executor.run_update();
    } else {
      executor.feed(feed);
      ran = executor.run();
    }
    {
      const std::lock_guard hold(lock);
      out.counted[static_cast<std::size_t>(transport.rank())] = ran.bytes_received;
      if (s == 0) out.first[static_cast<std::size_t>(transport.rank())] = ran.bytes_received;
    }
    if (s > 0) continue;
    mine.loss = gather_output(plan, program, executor, transport, passes.outputs.front()).values[0];
    if (logits >= 0) mine.logits = gather_output(plan, program, executor, transport, logits).values;
    for (int p : passes.parameters) {
      if (!passes.is_trained(p)) continue;
      const WholeTensor g = gather_parameter(plan, program, executor, transport, p, Part::gradient);
      mine.gradients[g.name] = g.values;
    }
  }
  for (int p : passes.parameters) {
    const WholeTensor w = gather_parameter(plan, program, executor, transport, p, Part::value);
    mine.weights[w.name] = w.values;
  }
  if (transport.rank() != 0) return;
  const std::lock_guard hold(lock);
  mine.counted = out.counted;
  mine.first = out.first;
  out = std::move(mine);
}

// all: the largest value of all tensors; one that is zero but for rounding is compared with it.
double apart(const std::vector<double>& a, const std::vector<double>& b, double all = 0) {
  double most = 0, worst = 0;
  if (a.size() != b.size()) return INFINITY;
  for (std::size_t i = 0; i < a.size(); i++) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    most = std::max(most, std::abs(b[i]));
    worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  if (most < 1e-9 * all) most = all;
  return most < 1e-30 ? worst : worst / most;
}

}  // namespace

Outcome run_plan(const Plan& plan, const RunOptions& options) {
  const int ranks = plan.mesh().ranks();
  Outcome out;
  out.counted.assign(static_cast<std::size_t>(ranks), 0);
  out.first = out.counted;
  auto transports = in_memory(ranks);
  std::mutex lock;
  std::exception_ptr failed;
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; r++)
    threads.emplace_back([&, r] {
      try {
        one_rank(plan, options, *transports[static_cast<std::size_t>(r)], out, lock);
      } catch (const Error& e) {
        transports[static_cast<std::size_t>(r)]->abort(e);
        const std::lock_guard hold(lock);
        if (!failed) failed = std::current_exception();
      }
    });
  for (std::thread& t : threads) t.join();
  if (failed) std::rethrow_exception(failed);
  return out;
}

double difference(const Outcome& a, const Outcome& b) {
  double worst = std::max(apart(a.logits, b.logits), apart({a.loss}, {b.loss}));
  const auto largest = [](const std::map<std::string, std::vector<double>>& tensors) {
    double most = 0;
    for (const auto& [name, values] : tensors)
      for (const double v : values) most = std::max(most, std::abs(v));
    return most;
  };
  const double gradients = largest(b.gradients), weights = largest(b.weights);
  for (const auto& [name, values] : b.gradients)
    worst = std::max(worst, a.gradients.contains(name) ? apart(a.gradients.at(name), values, gradients) : INFINITY);
  for (const auto& [name, values] : b.weights)
    worst = std::max(worst, a.weights.contains(name) ? apart(a.weights.at(name), values, weights) : INFINITY);
  return worst;
}

}  // namespace motley
