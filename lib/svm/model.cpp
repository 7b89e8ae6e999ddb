// SPDX-License-Identifier: Apache-2.0
// libsvm's model file.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/svm.h>

#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "base/files.h"
#include "base/utf8.h"
#include "svm/text.h"

namespace motley::svm {

namespace {

constexpr std::array kKernels{"linear", "polynomial", "rbf"};  // in the order of KernelKind

// The lines before the support vectors, by their first word.
using Header = std::map<std::string, std::vector<std::string>, std::less<>>;

class HeaderReader {
 public:
  HeaderReader(const std::string& name, Lines& lines) : at_{name, 0, 1} {
    for (auto line = lines.next(); line; line = lines.next()) {
      at_.line++;
      Words words(*line);
      const std::string key(words.next());
      if (key == "SV") return;
      for (std::string_view word = words.next(); !word.empty(); word = words.next()) header_[key].emplace_back(word);
      if (header_.size() > 32) break;
    }
    complain(at_, "not a libsvm model file: there is no line \"SV\"");
  }
  const Place& place() const { return at_; }
  const std::vector<std::string>& words(const char* key, std::size_t count) const {
    const auto found = header_.find(key);
    if (found == header_.end()) complain(at_, fmt::format("no line \"{}\" before the support vectors", key));
    if (found->second.size() != count)
      complain(at_, fmt::format("expected {} values of \"{}\", found {}", count, key, found->second.size()));
    return found->second;
  }
  bool has(const char* key) const { return header_.contains(key); }
  double number(const char* key) const { return numbers(key, 1).front(); }
  Index count(const char* key) const { return counts(key, 1).front(); }
  std::vector<Index> counts(const char* key, std::size_t count) const {
    std::vector<Index> out;
    for (const double value : numbers(key, count)) {
      if (value < 0 || value > 1e15 || value != std::floor(value))
        complain(at_, fmt::format("{} of \"{}\" is not a count", value, key));
      out.push_back(static_cast<Index>(value));
    }
    return out;
  }
  std::vector<double> numbers(const char* key, std::size_t count) const {
    std::vector<double> out;
    for (const std::string& word : words(key, count)) {
      const std::optional<double> value = number_in(word);
      if (!value || !std::isfinite(*value)) complain(at_, fmt::format("\"{}\" of \"{}\" is not a number", printable(word), key));
      out.push_back(*value);
    }
    return out;
  }

 private:
  Place at_;
  Header header_{};
};

KernelFunction kernel_of(const HeaderReader& header) {
  const std::string& name = header.words("kernel_type", 1).front();
  KernelFunction out;
  const auto* const found = std::find(kKernels.begin(), kKernels.end(), name);
  if (found == kKernels.end())
    complain(header.place(), fmt::format("the kernel \"{}\" is not one of {}", printable(name), fmt::join(kKernels, ", ")));
  out.kind = static_cast<KernelKind>(found - kKernels.begin());
  if (out.kind != KernelKind::linear) out.gamma = header.number("gamma");
  if (out.kind != KernelKind::polynomial) return out;
  out.coef0 = header.number("coef0");
  out.degree = static_cast<int>(std::min<Index>(header.count("degree"), 1000));
  return out;
}

}  // namespace

std::string Model::text() const {
  std::string out = fmt::format("svm_type c_svc\nkernel_type {}\n", kKernels[static_cast<std::size_t>(kernel.kind)]);
  if (kernel.kind == KernelKind::polynomial) out += fmt::format("degree {}\n", kernel.degree);
  if (kernel.kind != KernelKind::linear) out += fmt::format("gamma {}\n", kernel.gamma);
  if (kernel.kind == KernelKind::polynomial) out += fmt::format("coef0 {}\n", kernel.coef0);
  out += fmt::format("nr_class {}\ntotal_sv {}\nrho {}\nlabel", labels.size(), vectors.offsets.size() - 1, fmt::join(rho, " "));
  for (const double label : labels) out += fmt::format(" {}", static_cast<Index>(label));
  out += fmt::format("\nnr_sv {}\nSV\n", fmt::join(counts, " "));
  const std::size_t others = labels.size() - 1;
  for (std::size_t v = 0; v + 1 < vectors.offsets.size(); v++) {
    for (std::size_t k = 0; k < others; k++) out += fmt::format("{} ", coefficients[v * others + k]);
    for (Index e = vectors.offsets[v]; e < vectors.offsets[v + 1]; e++)
      out += fmt::format("{}:{} ", vectors.columns[static_cast<std::size_t>(e)] + 1, vectors.values[static_cast<std::size_t>(e)]);
    out += '\n';
  }
  return out;
}

void Model::save(const std::filesystem::path& file) const {
  write_text(file, text());
}

Model Model::parse(const std::string& name, const std::string& text) {
  Lines lines(text);
  const HeaderReader header(name, lines);
  if (header.words("svm_type", 1).front() != "c_svc") complain(header.place(), "svm_type is not c_svc: only classifiers are read");
  Model out;
  out.kernel = kernel_of(header);
  const auto classes = static_cast<std::size_t>(header.count("nr_class"));
  if (classes < 2 || classes > 100000) complain(header.place(), "nr_class is not from 2 to 100000");
  const Index total = header.count("total_sv");
  out.rho = header.numbers("rho", classes * (classes - 1) / 2);
  out.labels = header.numbers("label", classes);
  for (const double label : out.labels)
    if (label != std::floor(label)) complain(header.place(), fmt::format("the label {} is not an integer", label));
  out.counts = header.counts("nr_sv", classes);
  if (std::accumulate(out.counts.begin(), out.counts.end(), Index{0}) != total)
    complain(header.place(), "the counts of nr_sv do not add up to total_sv");
  Place at = header.place();
  for (auto line = lines.next(); line; line = lines.next()) {
    at.line++;
    Words words(*line);
    for (std::size_t k = 0; k + 1 < classes; k++) {
      const std::optional<double> value = number_in(words.next());
      at.column = words.column();
      if (!value || !std::isfinite(*value)) complain(at, fmt::format("expected {} coefficients of a support vector", classes - 1));
      out.coefficients.push_back(*value);
    }
    read_entries(words, at, out.vectors);
  }
  if (static_cast<Index>(out.vectors.offsets.size()) - 1 != total)
    complain(at, fmt::format("expected {} support vectors, found {}", total, out.vectors.offsets.size() - 1));
  out.vectors.labels.assign(static_cast<std::size_t>(total), 0.0);
  return out;
}

Model Model::load(const std::filesystem::path& file) {
  const InputFile in(file);
  return parse(file.string(), in.text());
}

}  // namespace motley::svm
