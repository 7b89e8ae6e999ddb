// SPDX-License-Identifier: Apache-2.0
/// @file
/// Samples from files, and synthetic ones.
#pragma once
#include <motley/dataset.h>

#include <filesystem>

namespace motley {
/// @addtogroup data
/// @{

/// MNIST from the folder with its four IDX files, `.gz` or not. UserError: 66 missing (says how to get it), 65 damaged.
Datasets load_mnist(const std::filesystem::path& folder);
/// Fashion-MNIST, as load_mnist(). Without a folder: where Debian's dataset-fashion-mnist puts it.
Datasets load_fashion_mnist(const std::filesystem::path& folder = {});
/// CIFAR-10 from the folder with its binary batches. UserError as load_mnist().
Datasets load_cifar10(const std::filesystem::path& folder);
/// Values and labels from the seed alone; labels can be learnt from the values.
Datasets synthetic(std::vector<Index> sample_extents, Index classes, Index samples, std::uint64_t seed);
/// The same of any kind: also whole numbers, labels for each element, and real labels (in 0..1).
Datasets synthetic(const SampleKind& kind, Index samples, std::uint64_t seed);

/// Files of load_npy(): arrays [samples, a sample's dims...] and their labels.
struct NpyFiles {
  std::filesystem::path images{};  ///< f16, f32, f64 (values as they are) or u8 (scaled to 0..1)
  /// Shape [samples] or [samples, label_extents...]. Integers; real labels: floats or integers, with their values as they are.
  std::filesystem::path labels{};
  std::filesystem::path test_images{};                         ///< like images; empty: there is no test part
  std::filesystem::path test_labels{};                         ///< given with test_images
  std::map<std::string, std::filesystem::path> inputs{};       ///< for a network's further inputs, by input name, like images
  std::map<std::string, std::filesystem::path> test_inputs{};  ///< likewise; given with test_images
};
/// Arrays in NumPy files. Only the parts that are needed are read, so a file may be larger than memory. An input that expects whole
/// numbers needs an array of integers. UserError: 66 missing; 65 damaged, not as expected, a label that is not a class, not finite
/// or not in 0..1 where that is expected, or no label that is not ignored; 65 also from read(): the file has become shorter, or a
/// sample or label is not finite (labels in the first 1 GiB of the file: from load_npy()).
Datasets load_npy(const NpyFiles& files, const SampleKind& expected = {});
/// How pictures of unlike sizes become samples: bilinear with antialiasing, bit for bit as Pillow 12's resize(..., BILINEAR);
/// Pillow 13 and torchvision's transforms of tensors differ by at most 1 of 255.
struct Resize {
  Index rows = 0;  ///< of the sample; 0: nothing is resized, all pictures have the sample's size
  Index cols = 0;  ///< likewise
  /// 0: both edges are scaled, the aspect is not kept. Else the picture is scaled so that its shorter edge has this many pixels,
  /// and the sample is its middle.
  Index shorter = 0;
};
/// Options of load_folder(). Every field has a default.
struct FolderOptions {
  Resize resize{};                     ///< of all pictures
  std::vector<std::string> without{};  ///< pictures that are left out, as "train/CLASS/FILE"
};
/// PNG and JPEG pictures, `train/CLASS/*` and `test/CLASS/*` in the folder, decoded and turned as their EXIF says when they are
/// read. Without a folder "test" one that is called Test, val, valid or validation is the test part, if there is one; else there is
/// none. Classes are numbered by name. expected.extents: [channels, rows, cols], of 1 channel (colours become their luminance) or 3
/// (grey is repeated); empty: those of `resize`, else of the first picture, 3 channels. UserError: 66 missing; 65, also from
/// read(): a picture that is damaged or has another size (the error names its file).
Datasets load_folder(const std::filesystem::path& folder, const SampleKind& expected = {}, const FolderOptions& options = {});
/// Lists the pictures that are damaged or whose header gives a size other than `expected`, one file per line; empty: none. Reads no
/// pixels.
std::vector<std::string> check_folder(const std::filesystem::path& folder, const SampleKind& expected,
                                      const FolderOptions& options = {});

/// Width of a token's number in a file, little endian.
enum class TokenType : std::uint8_t { u16, u32 };
/// Files of load_tokens(): the numbers of consecutive tokens, nothing else.
struct TokenFiles {
  std::filesystem::path path{};       ///< to train on
  std::filesystem::path test_path{};  ///< to evaluate on; empty: the last tenth of `path`
  TokenType type = TokenType::u16;    ///< of both
};
/// Samples of expected.extents[0] consecutive tokens each, whose labels are the tokens shifted by one; tokens left over at the end
/// are not used. Files are read where they are needed. No test part if it would not have a single sample. UserError: 66 missing; 65
/// shorter than one sample, not a whole number of tokens, tokens that are wider than `type`, or, from read(), a token that is not
/// below expected.numbers and expected.classes (both 0: the whole file is read to find the largest token).
Datasets load_tokens(const TokenFiles& files, const SampleKind& expected);
/// Reads the first 1 GiB of each file. UserError (65): a token that is not below expected.numbers and expected.classes.
void check_tokens(const TokenFiles& files, const SampleKind& expected);

/// @}
}  // namespace motley
