// SPDX-License-Identifier: Apache-2.0
// An Executor's values, read and written from outside its steps.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/box_rows.h"
#include "base/copy_box.h"
#include "base/hash.h"
#include "kernels/operands.h"
#include "program/views.h"
#include "run/bound_program.h"
#include "run/buffer_values.h"
#include "run/not_finite.h"

namespace motley {

const std::byte* Executor::Bound::host_bytes(int buffer, std::vector<std::byte>& room) const {
  if (device == nullptr) return address({buffer, 0});
  room.resize(static_cast<std::size_t>(at(program.buffers, buffer).bytes));
  copy_and_wait(*device, room.data(), address({buffer, 0}), room.size());
  return room.data();
}

int Executor::first_not_finite() {
  const Program& program = bound_->program;
  int first = -1;
  std::unordered_map<int, int> tensor_of;  // by buffer
  for (std::size_t t = 0; t < program.stored.size(); t++)
    for (const Stored& s : program.stored[t]) tensor_of[s.buffer] = static_cast<int>(t);
  std::vector<std::byte> room;
  for (const FedBuffer& f : program.feeds)
    if (first < 0 && !is_finite(program, f.buffer, bound_->host_bytes(f.buffer, room))) first = f.tensor;
  if (first < 0) first = first_parameter_not_finite();
  run_forward([&](int step) {
    const auto* run = std::get_if<RunKernel>(&at(program.steps, step).what);
    if (first >= 0 || run == nullptr) return;
    for (std::size_t k = run->operands.size() - result_count(run->spec); k < run->operands.size() && first < 0; k++) {
      const int buffer = run->operands[k].buffer;
      const auto tensor = tensor_of.find(buffer);
      if (tensor != tensor_of.end() && !is_finite(program, *run, k, bound_->host_bytes(buffer, room))) first = tensor->second;
    }
  });
  return first;
}

int Executor::first_parameter_not_finite() const {
  std::vector<std::byte> room;
  for (const Slice& s : bound_->program.slices)
    if (!is_finite(bound_->program, s.value, bound_->host_bytes(s.value, room))) return s.tensor;
  return -1;
}

std::vector<double> Executor::read(int buffer, const Box& box) const {
  std::vector<std::byte> room;
  return read_values(at(bound_->program.buffers, buffer), box, bound_->host_bytes(buffer, room));
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
  std::vector<Index> extents, strides;
  for (const std::size_t d : dims) {
    extents.push_back(view.extents[d]);
    strides.push_back(view.strides[d]);
  }
  Hash hash;
  for_each_row(extents, strides, row_major(extents), [&](const BoxRow& row) {
    const std::byte* from = base + static_cast<std::size_t>(row.a) * item;
    if (row.a_step == 1) return hash.bytes(from, static_cast<std::size_t>(row.length) * item);
    for (Index k = 0; k < row.length; k++, from += static_cast<std::size_t>(row.a_step) * item) hash.bytes(from, item);
  });
  return hash.value();
}

void Executor::write(int buffer, const Box& box, const std::vector<double>& values) {
  std::vector<std::byte> room;
  std::byte* const memory =
      bound_->device == nullptr ? bound_->address({buffer, 0}) : const_cast<std::byte*>(bound_->host_bytes(buffer, room));
  write_values(at(bound_->program.buffers, buffer), box, values, memory);
  if (bound_->device != nullptr) copy_and_wait(*bound_->device, bound_->address({buffer, 0}), room.data(), room.size());
}

std::vector<double> Executor::Bound::update_values(double learning_rate, double factor_of_gradients, Index step) const {
  std::vector<double> out{factor_of_gradients};
  if (!program.step_scalars.code.empty())
    for (const double its : evaluate(program.step_scalars, {static_cast<double>(step)})) out.push_back(its);
  if (program.average > 0) out.push_back(step <= 1 ? 0 : program.average);  // the first step keeps nothing of an average
  for (const Slice& s : program.slices) {
    out.push_back(s.rate_factor * learning_rate);
    out.push_back(s.weight_decay);
  }
  return out;
}

void Executor::set_update(double learning_rate, double factor_of_gradients, Index step) {
  if (of_trainer_)
    throw UserError(
        "the executor is a Trainer's, which sets learning rate and gradient factor in each step; call Trainer::set_learning_rate");
  write_update(learning_rate, factor_of_gradients, step);
}

void Executor::write_update(double learning_rate, double factor_of_gradients, Index step) {
  const Program& program = bound_->program;
  if (program.scalars < 0) return;
  write(program.scalars, at(program.buffers, program.scalars).box, bound_->update_values(learning_rate, factor_of_gradients, step));
}

int Executor::first_gradient_not_finite() const {
  const Program& program = bound_->program;
  for (std::size_t i = 0; i < program.norms.size(); i++)
    if (program.norms[i] >= 0 && !std::isfinite(read(program.norms[i], {}).front())) return program.slices[i].tensor;
  return -1;
}

double Executor::squared_norm() const {
  double sum = 0;
  for (int buffer : bound_->program.norms)
    if (buffer >= 0) sum += read(buffer, {}).front();
  return sum;
}

}  // namespace motley
