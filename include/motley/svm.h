// SPDX-License-Identifier: Apache-2.0
/// @file
/// Support vector machines for classification, trained by sequential minimal optimisation whose samples are distributed over
/// unequal devices.
#pragma once
#include <motley/dtype.h>
#include <motley/mesh.h>
#include <motley/runtime.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace motley::svm {
/// @addtogroup vectors
/// @{

/// Samples in rows of their features that are not 0. Entries `offsets[r] .. offsets[r+1]-1` belong to row r.
struct Data {
  std::vector<double> labels{};                                        ///< one per row
  std::vector<Index> offsets{0};                                       ///< one more than rows
  std::vector<std::int32_t> columns{};                                 ///< of the entries: features from 0, ascending within a row
  std::vector<double> values{};                                        ///< of the entries, finite
  Index features = 0;                                                  ///< greater than every column
  Index samples() const { return static_cast<Index>(labels.size()); }  ///< number of rows
  /// Reads libsvm's text format, `LABEL INDEX:VALUE INDEX:VALUE ...` with ascending indices from 1. UserError: 66 there is no file;
  /// 65 with line and column.
  static Data load(const std::filesystem::path& file);
  static Data parse(const std::string& name, const std::string& text);  ///< The same from a text; errors name the file `name`.
  /// Reads .npy arrays: values [samples, features], and labels [samples], which are integers; without a file of labels all are 0.
  /// UserError: 66 there is no file; 65 another shape, a value that is not finite, a label that is not an integer.
  static Data load_npy(const std::filesystem::path& file, const std::filesystem::path& labels = {});
};

/// Which function of two samples.
enum class KernelKind : std::uint8_t { linear, polynomial, rbf };
/// linear: x z. polynomial: (gamma x z + coef0)^degree. rbf: exp(-gamma |x - z|^2).
struct KernelFunction {
  KernelKind kind = KernelKind::rbf;  ///< which of them
  double gamma = 0;                   ///< above 0; in Options 0: 1 / features
  double coef0 = 0;                   ///< of polynomial
  int degree = 3;                     ///< of polynomial, from 1
  bool operator==(const KernelFunction&) const = default;
};

/// When samples at a bound that cannot move are eliminated from the working problem. early: every n / 20 iterations for n samples.
/// adaptive: every min(n, 1000) iterations, those that could not move at two checks in turn; twice as rarely after a check of all
/// samples has found a wrong one. lazy: every n / 2 iterations. Any of them ends with the same certificate over all samples.
enum class Shrink : std::uint8_t { adaptive, early, lazy, never };

/// Where training is.
struct Progress {
  Index machine = 0;                     ///< which pair of classes, from 0
  Index machines = 1;                    ///< number of pairs
  Index iterations = 0;                  ///< of this machine
  double gap = 0;                        ///< by which the active samples violate the optimality conditions
  Index active = 0;                      ///< samples that are not eliminated
  Index samples = 0;                     ///< of this machine
  std::optional<double> seconds_left{};  ///< of this machine: an estimate; none before there is one
};

/// Options of train(). Every field has a default.
struct Options {
  KernelFunction kernel{};                          ///< the kernel
  double c = 1;                                     ///< upper bound of the coefficients, above 0
  double epsilon = 1e-3;                            ///< training ends when the gap over all samples is at most this
  Shrink shrink = Shrink::adaptive;                 ///< when samples are eliminated
  DType dtype = DType::f32;                         ///< of kernel rows: f32 or f64. Gradients are f64
  Index cache_bytes = 0;                            ///< of each rank's cache of kernel rows; 0: a quarter of the device's memory
  std::vector<double> shares{};                     ///< of the samples, one per rank; empty: measured
  std::function<void(const Progress&)> progress{};  ///< on rank 0, at most four times a second
  std::function<void(const std::string& line)> warn{};  ///< on rank 0
};

/// A trained classifier: one machine for each pair of classes (a, b), a < b, whose decision is the sum over support vectors of
/// coefficient * K(vector, x), less rho; above 0 it votes for class a. libsvm's model.
struct Model {
  KernelFunction kernel{};       ///< the kernel
  std::vector<double> labels{};  ///< of the classes
  std::vector<double> rho{};     ///< by pair: (0, 1), (0, 2), ..., (1, 2), ...
  std::vector<Index> counts{};   ///< support vectors of each class
  std::vector<double>
      coefficients{};        ///< [support vectors, classes - 1]: of a vector of class a in the pairs with the other classes
  Data vectors{};            ///< class after class; their labels are not used
  std::string text() const;  ///< libsvm's model file
  /// Reads a libsvm model file of kind c_svc with one of these kernels. UserError (65) with the line.
  static Model load(const std::filesystem::path& file);
  static Model parse(const std::string& name, const std::string& text);  ///< The same from a text; errors name the file `name`.
  void save(const std::filesystem::path& file) const;                    ///< The file appears whole or not at all. UserError (74)
};

/// What training one pair of classes found.
struct Machine {
  double positive = 0;        ///< label of the class with decisions above 0
  double negative = 0;        ///< label of the other one
  Index samples = 0;          ///< of both
  double objective = 0;       ///< of the dual problem, in f64
  double rho = 0;             ///< threshold
  double gap = 0;             ///< over all samples, from gradients that were computed from scratch in f64
  double balance = 0;         ///< the sum of labels (1 and -1) times coefficients: 0 but for rounding
  Index support_vectors = 0;  ///< with a coefficient above 0
  Index bounded = 0;          ///< of them, with the coefficient c
  Index iterations = 0;       ///< steps of two samples
  Index kernel_values = 0;    ///< that all ranks computed for rows, certificates apart
  Index reconstructions = 0;  ///< times that all gradients were computed from scratch, the certificate at the end included
  Index least_active = 0;     ///< fewest samples that took part
  double seconds = 0;         ///< of its training
  bool converged = true;      ///< whether gap <= epsilon
};
/// What one rank did.
struct RankReport {
  std::string device{};        ///< its name in the mesh
  Index samples = 0;           ///< its share of the samples, of all machines together
  double row_seconds = 0;      ///< computing kernel rows
  double step_seconds = 0;     ///< gradients and choosing samples
  double check_seconds = 0;    ///< gradients from scratch
  double waiting_seconds = 0;  ///< for the other ranks
  /// Of row_seconds and check_seconds the processor time of the rank's own thread: less than these where other processes, the
  /// rank's other threads or a GPU had a part in them.
  double processor_seconds = 0;
  Index rows = 0;      ///< kernel rows computed
  Index row_hits = 0;  ///< kernel rows found in its cache
};
/// A model, and how it was found. The same on every rank.
struct Result {
  Model model{};                    ///< of the samples
  std::vector<Machine> machines{};  ///< by pair
  std::vector<RankReport> ranks{};  ///< by rank
  bool stopped = false;             ///< a stop was requested: the model is what was reached
};

/// Trains on the samples, which are distributed over the mesh's devices by measured seconds. Collective: every rank has the same
/// data. SIGINT and SIGTERM end training after an iteration.
/// @throws UserError 78: an option is out of its range; 65: fewer than two classes
Result train(Runtime& rt, const Mesh& mesh, const Data& data, const Options& options = {});

/// The predicted label of every sample, in f64. Collective.
std::vector<double> predict(Runtime& rt, const Mesh& mesh, const Model& model, const Data& data);

/// @}
}  // namespace motley::svm
