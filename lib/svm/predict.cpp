// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/partition.h>
#include <motley/svm.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/loops/this_cpu.h"
#include "svm/index.h"
#include "svm/kernel_sums.h"

namespace motley::svm {

namespace {

// The decision of a pair of classes (a, b) takes the coefficients of class a's vectors in column b - 1 and of class b's in column
// a.
std::vector<double> decisions_of(const Model& model, const Samples& vectors, const KernelSums& sums, const Samples& samples,
                                 const std::vector<Index>& which) {
  const std::size_t classes = model.labels.size(), pairs = model.rho.size();
  std::vector<Index> every(at(vectors.data.samples()));
  std::iota(every.begin(), every.end(), Index{0});
  std::vector<double> coefficients(every.size() * pairs);
  std::size_t v = 0;
  for (std::size_t own = 0; own < classes; own++)
    for (Index i = 0; i < model.counts[own]; i++, v++)
      for (std::size_t a = 0, p = 0; a < classes; a++)
        for (std::size_t b = a + 1; b < classes; b++, p++)
          if (a == own || b == own) coefficients[v * pairs + p] = model.coefficients[v * (classes - 1) + (a == own ? b - 1 : a)];
  std::vector<double> out(which.size() * pairs);
  for (std::size_t k = 0; k < which.size(); k++)
    for (std::size_t p = 0; p < pairs; p++) out[k * pairs + p] = -model.rho[p];
  sums.add(vectors, every, coefficients, static_cast<Index>(pairs), samples, which, out);
  return out;
}

// The class with most votes, the first of equal ones.
double voted(const Model& model, const double* decisions) {
  const std::size_t classes = model.labels.size();
  std::vector<int> votes(classes);
  for (std::size_t a = 0, p = 0; a < classes; a++)
    for (std::size_t b = a + 1; b < classes; b++, p++) votes[decisions[p] > 0 ? a : b]++;
  return model.labels[static_cast<std::size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin())];
}

}  // namespace

std::vector<double> predict(Runtime& rt, const Mesh& mesh, const Model& model, const Data& data) {
  static_cast<void>(rt.backend(mesh));  // caps this process's ISA and threads
  const Device& device = driven(mesh.device(rt.rank()));
  const KernelSums sums(cpu::smo_loops_of(cpu::simd_within(device.isa)), device.threads);
  const Samples vectors(model.vectors, model.kernel), samples(data, model.kernel);
  const Range mine = Partition::even(data.samples(), rt.ranks()).range(rt.rank());
  std::vector<Index> which(at(mine.end - mine.begin));
  std::iota(which.begin(), which.end(), mine.begin);
  const std::vector<double> decisions = decisions_of(model, vectors, sums, samples, which);
  std::vector<double> labels;
  for (std::size_t k = 0; k < which.size(); k++) labels.push_back(voted(model, decisions.data() + k * model.rho.size()));
  std::vector<double> out;
  for (const auto& bytes : rt.transport().gather_all(std::as_bytes(std::span(labels)))) {
    const std::size_t before = out.size();
    out.resize(before + bytes.size() / sizeof(double));
    if (!bytes.empty()) std::memcpy(out.data() + before, bytes.data(), bytes.size());
  }
  return out;
}

}  // namespace motley::svm
