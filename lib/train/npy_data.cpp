// SPDX-License-Identifier: Apache-2.0
#include "train/npy_data.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/at.h"
#include "base/half.h"
#include "base/npy.h"
#include "train/byte_images.h"
#include "train/elements.h"

namespace motley {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 4> kSampleTypes{"|u1", "<f2", "<f4", "<f8"};
constexpr std::array<std::string_view, 8> kLabelTypes{"|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8"};
// Types that pass the header check: each that is not supported has a specific message.
constexpr std::array<std::string_view, 11> kTypes{"|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8"};

std::string shape_text(const std::vector<Index>& extents) {
  std::string out;
  for (const Index e : extents) out += (out.empty() ? "" : ", ") + std::to_string(e);
  return "[" + out + "]";
}

class NpyFile {
 public:
  explicit NpyFile(const fs::path& path) : file_(path) {
    header_ = parse_npy_header(name(), file_.text(0, std::min<std::uint64_t>(file_.size(), kMostNpyHeader + 12)), kTypes);
    check_npy_size(name(), header_, static_cast<std::size_t>(file_.size()));
  }
  std::string name() const { return file_.path().string(); }
  const std::string& type() const { return header_.descr; }
  const std::vector<Index>& extents() const { return header_.extents; }
  template <class T>
  Elements<T> elements() const {
    return {file_, header_.data, static_cast<Index>(header_.elements)};
  }
  template <class T>
  T first_of(Index sample) const {
    return elements_of<T>(sample).from(0, 1).front();
  }
  // convert(element), with elements of type T in the file, for a box of the dims after the first.
  template <class T, class To, class F>
  void read(Index sample, const Box& box, std::span<To> out, F&& convert) const {
    Elements<T> elements = elements_of<T>(sample);
    const std::vector<Index> sizes(extents().begin() + 1, extents().end());
    for_each_stretch(sizes, box, [&](Index from, Index length) {
      elements.convert(from, out.first(static_cast<std::size_t>(length)), convert);
      out = out.subspan(static_cast<std::size_t>(length));
    });
  }

 private:
  // Reads only one sample: what is after it is not read ahead.
  template <class T>
  Elements<T> elements_of(Index sample) const {
    const Index each = static_cast<Index>(header_.elements) / extents().front();
    return {file_, header_.data + static_cast<std::size_t>(sample * each) * sizeof(T), each};
  }

  InputFile file_;
  NpyHeader header_{};
};

// Calls use(T{}) for the integer type of one of kLabelTypes.
template <class F>
auto with_type(const std::string& type, F&& use) {
  if (type == "|u1") return use(std::uint8_t{});
  if (type == "|i1") return use(std::int8_t{});
  if (type == "<u2") return use(std::uint16_t{});
  if (type == "<i2") return use(std::int16_t{});
  if (type == "<u4") return use(std::uint32_t{});
  if (type == "<i4") return use(std::int32_t{});
  if (type == "<u8") return use(std::uint64_t{});
  return use(std::int64_t{});
}

// Calls use(T{}, CONVERT) for numbers of any type; convert(number): as a double.
template <class F>
auto with_numbers(const std::string& type, F&& use) {
  if (type == "<f2") return use(std::uint16_t{}, [](std::uint16_t v) { return double{float_of_f16(v)}; });
  if (type == "<f4") return use(float{}, [](float v) { return double{v}; });
  if (type == "<f8") return use(double{}, [](double v) { return v; });
  return with_type(type, [&]<class T>(T) { return use(T{}, [](T v) { return static_cast<double>(v); }); });
}

// Converts an integer; one that is too large for any label becomes the largest label.
template <class T>
std::int64_t whole_label(T value) {
  return std::in_range<std::int64_t>(value) ? static_cast<std::int64_t>(value) : std::numeric_limits<std::int64_t>::max();
}

// The labels in an array, one or several per sample.
class NpyLabels {
 public:
  // UserError (65): not as expected, or a label that is not a class or not a finite number. samples: -1: any number.
  NpyLabels(const fs::path& file, Index samples, const std::string& of, const SampleKind& expected)
      : array_(file), dtype_(expected.label_dtype), extents_(expected.label_extents) {
    const std::vector<Index>& all = array_.extents();
    if (expected.any_labels) {
      if (all.empty()) throw UserError(array_.name() + ": an array []; expected [samples, ...]", Exit::data);
      check_count(samples, of);
      return;
    }
    const bool by_class = dtype_ == DType::i32 && all.size() == 2 && all[1] == expected.classes && expected.label_extents.empty();
    const std::string one_hot = by_class ? "; of a row per sample, 1 at its class, labels.argmax(1) makes integers" : "";
    if (dtype_ == DType::i32 && std::find(kLabelTypes.begin(), kLabelTypes.end(), array_.type()) == kLabelTypes.end())
      throw UserError(array_.name() + ": labels of type '" + array_.type() + "'; expected integers" + one_hot, Exit::data);
    if (dtype_ == DType::i32 && all.size() == 1) extents_.clear();  // one label that applies to each element
    if (all.empty() || !std::equal(all.begin() + 1, all.end(), extents_.begin(), extents_.end())) {
      const std::string sizes = shape_text(expected.label_extents), each = "[samples, " + sizes.substr(1);
      throw UserError(array_.name() + ": an array " + shape_text(all) + "; expected " +
                          (expected.label_extents.empty() ? "[samples], a label for each"
                           : dtype_ == DType::i32         ? "[samples] or " + each
                                                          : each) +
                          one_hot,
                      Exit::data);
    }
    check_count(samples, of);
    if (dtype_ == DType::i32) check_classes(expected.classes, expected.ignored);
    if (dtype_ != DType::i32) expected.label_is_part ? check_parts() : check_finite();
  }
  Index largest() const { return largest_; }  // the largest class
  DType dtype() const { return dtype_; }
  const std::vector<Index>& extents() const { return extents_; }
  std::int32_t label(Index sample) const {
    return with_type(array_.type(), [&]<class T>(T) { return static_cast<std::int32_t>(whole_label(array_.first_of<T>(sample))); });
  }
  template <class T>
  void read(Index sample, const Box& box, std::span<T> out) const {
    if (extents_.empty() && dtype_ == DType::i32) return std::fill(out.begin(), out.end(), static_cast<T>(label(sample)));
    if (dtype_ == DType::i32)
      return with_type(array_.type(), [&]<class N>(N) {
        array_.read<N>(sample, box, out, [](N value) { return static_cast<T>(whole_label(value)); });
      });
    with_numbers(array_.type(), [&]<class N>(N, auto&& convert) {
      array_.read<N>(sample, box, out, [&](N value) { return static_cast<T>(finite(sample, convert(value))); });
    });
  }

 private:
  void check_count(Index samples, const std::string& of) const {
    if (const Index labels = array_.extents().front(); samples >= 0 && labels != samples)
      throw UserError(
          array_.name() + ": " + std::to_string(labels) + " labels for the " + std::to_string(samples) + " samples of " + of,
          Exit::data);
  }
  // classes: 0: any.
  void check_classes(Index classes, std::optional<Index> ignored) {
    const Index most = classes > 0 ? classes : Index{std::numeric_limits<std::int32_t>::max()}, each = product(extents_);
    bool any = false;
    with_type(array_.type(), [&]<class T>(T) {
      array_.elements<T>().each(0, array_.extents().front() * each, [&](Index i, T value) {
        const std::int64_t label = whole_label(value);
        if (ignored && label == *ignored) return;
        if (label < 0 || label >= most)
          throw UserError(array_.name() + ": sample " + std::to_string(i / each) + " has the label " + std::to_string(value) +
                              "; expected " + (classes > 0 ? "0 to " + std::to_string(classes - 1) : "0 or more") +
                              (ignored ? ", or " + std::to_string(*ignored) + ", which is ignored" : ""),
                          Exit::data);
        largest_ = std::max(largest_, label);
        any = true;
      });
    });
    if (ignored && !any)
      throw UserError(
          array_.name() + ": every label is " + std::to_string(*ignored) + ", which \"ignore_index\" excludes; no sample is left",
          Exit::data);
  }
  void check_parts() const {
    const Index each = product(extents_);
    with_numbers(array_.type(), [&]<class T>(T, auto&& convert) {
      array_.elements<T>().each(0, array_.extents().front() * each, [&](Index i, T value) {
        if (const double label = convert(value); !(label >= 0 && label <= 1))
          throw UserError(
              fmt::format("{}: sample {} has the label {}; binary_cross_entropy expects 0 to 1", array_.name(), i / each, label),
              Exit::data);
      });
    });
  }
  // The first 1 GiB; the rest when it is read.
  void check_finite() const {
    const Index each = product(extents_);
    with_numbers(array_.type(), [&]<class T>(T, auto&& convert) {
      const Index checked = std::min(array_.extents().front() * each, kMostChecked / static_cast<Index>(sizeof(T)));
      array_.elements<T>().each(0, checked, [&](Index i, T value) { finite(i / each, convert(value)); });
    });
  }
  double finite(Index sample, double label) const {
    if (!std::isfinite(label))
      throw UserError(fmt::format("{}: sample {} has the label {}; expected finite numbers", array_.name(), sample, label),
                      Exit::data);
    return label;
  }
  NpyFile array_;
  DType dtype_;
  std::vector<Index> extents_;
  Index largest_ = -1;
};

class NpySamples final : public Dataset {
 public:
  // Without `sample`: any sizes. Without `dtype`: any numbers, which are not read.
  NpySamples(const fs::path& images, const std::optional<std::vector<Index>>& sample, std::optional<DType> dtype = DType::f32)
      : array_(images), dtype_(dtype.value_or(DType::f32)) {
    const std::vector<Index>& all = array_.extents();
    const bool right = !all.empty() && (!sample || std::equal(all.begin() + 1, all.end(), sample->begin(), sample->end()));
    if (!right) {
      const std::string sizes = sample && !sample->empty() ? ", " + shape_text(*sample).substr(1) : "]";
      throw UserError(array_.name() + ": an array " + shape_text(all) + "; expected [samples" + sizes, Exit::data);
    }
    sample_.assign(all.begin() + 1, all.end());
    if (!dtype) return;
    if (dtype == DType::i32 && std::find(kLabelTypes.begin(), kLabelTypes.end(), array_.type()) == kLabelTypes.end())
      throw UserError(array_.name() + ": an array of type '" + array_.type() + "'; expected integers", Exit::data);
    if (dtype != DType::i32 && std::find(kSampleTypes.begin(), kSampleTypes.end(), array_.type()) == kSampleTypes.end())
      throw UserError(array_.name() + ": an array of integers ('" + array_.type() +
                          "'); expected floats, which are taken as they are, or u8, which is scaled to 0..1",
                      Exit::data);
  }
  void set_labels(std::unique_ptr<const NpyLabels> labels, Index classes) {
    labels_ = std::move(labels);
    classes_ = classes;
  }
  std::string name() const { return array_.name(); }
  Index samples() const override { return array_.extents().front(); }
  Index classes() const override { return classes_; }
  std::vector<Index> sample_extents() const override { return sample_; }
  std::int32_t label(Index sample) const override {
    return labels_ == nullptr || labels_->dtype() != DType::i32 || !labels_->extents().empty() ? 0 : labels_->label(sample);
  }
  std::vector<Index> label_extents() const override { return labels_ == nullptr ? std::vector<Index>{} : labels_->extents(); }
  DType label_dtype() const override { return labels_ == nullptr ? DType::i32 : labels_->dtype(); }
  void read_labels(Index sample, const Box& box, std::span<std::int32_t> out) const override {
    labels_ == nullptr ? Dataset::read_labels(sample, box, out) : labels_->read(sample, box, out);
  }
  void read_targets(Index sample, const Box& box, std::span<double> out) const override {
    labels_ == nullptr ? Dataset::read_targets(sample, box, out) : labels_->read(sample, box, out);
  }
  DType dtype() const override { return dtype_; }
  // For whole numbers. UserError (65)
  void check_below(Index most) const {
    with_type(array_.type(), [&]<class T>(T) {
      const Index each = product(sample_);
      const Index checked = std::min(samples() * each, kMostChecked / static_cast<Index>(sizeof(T)));
      array_.elements<T>().each(0, checked, [&](Index i, T value) {
        if (std::cmp_less(value, 0) || std::cmp_greater_equal(value, most))
          throw UserError(name() + ": sample " + std::to_string(i / each) + " holds " + std::to_string(value) +
                              "; expected an index of a row, 0 to " + std::to_string(most - 1),
                          Exit::data);
      });
    });
  }
  void read(Index sample, const Box& box, std::span<double> out) const override {
    check(sample >= 0 && sample < samples() && volume(box) == static_cast<Index>(out.size()), "a sample's box fills what is given");
    const std::string& type = array_.type();
    if (dtype_ == DType::i32) return read_numbers(sample, box, out);
    if (type == "|u1") return array_.read<std::uint8_t>(sample, box, out, [](std::uint8_t v) { return v / 255.0; });
    with_numbers(type, [&]<class T>(T, auto&& convert) { array_.read<T>(sample, box, out, convert); });
    for (const double value : out)
      if (!std::isfinite(value))  // a fused ReLU could make a finite result of it
        throw UserError(fmt::format("{}: sample {} holds {}; expected finite numbers", name(), sample, value), Exit::data);
  }

 private:
  void read_numbers(Index sample, const Box& box, std::span<double> out) const {
    with_type(array_.type(), [&]<class T>(T) {
      array_.read<T>(sample, box, out, [&](T v) {
        if (!std::in_range<std::int32_t>(v))
          throw UserError(name() + ": sample " + std::to_string(sample) + " holds " + std::to_string(v) +
                              "; expected whole numbers from -2^31 to 2^31 - 1",
                          Exit::data);
        return static_cast<double>(v);
      });
    });
  }
  NpyFile array_;
  const DType dtype_;
  std::vector<Index> sample_{};
  std::unique_ptr<const NpyLabels> labels_{};  // none: samples without labels
  Index classes_ = 1;
};

}  // namespace

std::shared_ptr<const Dataset> npy_samples(const fs::path& file, const std::optional<std::vector<Index>>& sample, DType dtype) {
  return std::make_shared<NpySamples>(file, sample, dtype);
}

namespace {

// What is expected of an input; nullptr: the network has no input of that name.
const SampleKind* find_further(const SampleKind& expected, const std::string& name) {
  const auto its =
      std::find_if(expected.further.begin(), expected.further.end(), [&](const SampleKind& k) { return k.input == name; });
  return its == expected.further.end() ? nullptr : &*its;
}

// One part of the data, file by file.
class NpyPart {
 public:
  // wrong: collects all faults; null: the first one is thrown. part: "" or "test_".
  NpyPart(const SampleKind& expected, std::string part, std::vector<NpyError>* wrong)
      : expected_(expected), part_(std::move(part)), wrong_(wrong) {}
  void load(const fs::path& images, const fs::path& labels, const std::map<std::string, fs::path>& inputs,
            const std::vector<Index>& sample) {
    about("images", [&] {
      auto loaded = std::make_shared<NpySamples>(images, sample.empty() ? std::nullopt : std::optional(sample),
                                                 expected_.any_samples ? std::nullopt : std::optional(expected_.dtype));
      if (loaded->samples() == 0) throw UserError(images.string() + ": an array without samples", Exit::data);
      look_through(*loaded, expected_);
      images_ = std::move(loaded);
    });
    about("labels", [&] {
      labels_ =
          std::make_unique<const NpyLabels>(labels, images_ ? images_->samples() : -1, images_ ? images_->name() : "", expected_);
    });
    for (const auto& [name, file] : inputs)
      about("inputs/" + name, [&, &name_ = name, &file_ = file] { further_[name_] = load_further(name_, file_); });
  }
  std::vector<Index> sample_extents() const { return images_ ? images_->sample_extents() : expected_.extents; }
  Index largest_label() const { return labels_->largest(); }
  std::shared_ptr<const Dataset> made(Index classes) {
    images_->set_labels(std::move(labels_), classes);
    return with_inputs(std::move(images_), std::move(further_));
  }

 private:
  template <class F>
  void about(const std::string& which, F&& f) {
    try {
      f();
    } catch (const UserError& e) {
      const NpyError error(part_ + which, e);
      if (wrong_ == nullptr) throw error;
      wrong_->push_back(error);
    }
  }
  // Not done when loading: it takes time, and every rank would do it.
  void look_through(const NpySamples& samples, const SampleKind& kind) const {
    if (wrong_ != nullptr && kind.dtype == DType::i32 && kind.numbers > 0) samples.check_below(kind.numbers);
  }
  std::shared_ptr<const Dataset> load_further(const std::string& name, const fs::path& file) const {
    const SampleKind* const its = find_further(expected_, name);
    auto out = std::make_shared<NpySamples>(file, its ? std::optional(its->extents) : std::nullopt,
                                            its                     ? std::optional(its->dtype)
                                            : expected_.any_samples ? std::nullopt
                                                                    : std::optional(DType::f32));
    if (images_ && out->samples() != images_->samples())
      throw UserError(file.string() + ": " + std::to_string(out->samples()) + " samples for the " +
                          std::to_string(images_->samples()) + " of " + images_->name(),
                      Exit::data);
    if (its) look_through(*out, *its);
    return out;
  }

  const SampleKind& expected_;
  const std::string part_;
  std::vector<NpyError>* const wrong_;
  std::shared_ptr<NpySamples> images_{};
  std::unique_ptr<const NpyLabels> labels_{};
  std::map<std::string, std::shared_ptr<const Dataset>> further_{};
};

Datasets load(const NpyFiles& files, const SampleKind& expected, std::vector<NpyError>* wrong) {
  check(files.test_images.empty() == files.test_labels.empty(), "test images and test labels are given together");
  check(files.test_inputs.empty() || !files.test_images.empty(), "further test inputs are given with test images");
  NpyPart train(expected, "", wrong), test(expected, "test_", wrong);
  train.load(files.images, files.labels, files.inputs, expected.extents);
  const bool tests = !files.test_images.empty();
  if (tests) test.load(files.test_images, files.test_labels, files.test_inputs, train.sample_extents());
  if (wrong != nullptr && !wrong->empty()) return {};
  Index classes = expected.classes;
  if (classes == 0) classes = std::max(train.largest_label(), tests ? test.largest_label() : -1) + 1;
  return {train.made(classes), tests ? test.made(classes) : nullptr};
}

}  // namespace

Datasets load_npy(const NpyFiles& files, const SampleKind& expected) {
  return load(files, expected, nullptr);
}

Datasets check_npy(const NpyFiles& files, const SampleKind& expected, std::vector<NpyError>& wrong) {
  return load(files, expected, &wrong);
}

}  // namespace motley
