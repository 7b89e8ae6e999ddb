// SPDX-License-Identifier: Apache-2.0
// Pictures of files: decoded, turned, scaled and cut as Pillow and torchvision do it; folders of them as samples.
#include <motley/data.h>
#include <motley/error.h>
#include <zlib.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include <jpeglib.h>

#include "base/json.h"
#include "pictures/picture.h"
#include "pictures/resample.h"
#include "tests/support/config_files.h"
#include "tests/support/samples.h"
#include "train/folder.h"
#include "train/random_crop.h"
#include "train/read_all.h"

using namespace motley;
using Catch::Contains;

namespace {

std::string be(std::uint32_t x) {
  return {static_cast<char>(x >> 24), static_cast<char>(x >> 16), static_cast<char>(x >> 8), static_cast<char>(x)};
}
std::string chunk(const std::string& name, const std::string& body) {
  const std::string all = name + body;
  return be(static_cast<std::uint32_t>(body.size())) + all +
         be(static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(all.data()), static_cast<uInt>(all.size()))));
}
// PNG specification, 11.2.2: type 0 grey, 2 colours, 3 palette, 4 grey with alpha, 6 colours with alpha. lines: without filter
// bytes.
std::string png(std::uint32_t rows, std::uint32_t cols, int type, const std::string& pixels, int depth = 8,
                const std::string& more = "") {
  std::string lines;
  const std::size_t line = pixels.size() / rows;
  for (std::size_t r = 0; r < rows; r++) lines += std::string(1, '\0') + pixels.substr(r * line, line);
  std::string packed(compressBound(static_cast<uLong>(lines.size())), '\0');
  uLongf size = static_cast<uLongf>(packed.size());
  REQUIRE(compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(lines.data()),
                   static_cast<uLong>(lines.size())) == Z_OK);
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", be(cols) + be(rows) + static_cast<char>(depth) + static_cast<char>(type) + std::string(3, '\0')) + more +
         chunk("IDAT", packed) + chunk("IEND", "");
}

std::string jpeg(int rows, int cols, int channels, std::uint8_t value) {
  jpeg_compress_struct out{};
  jpeg_error_mgr errors{};
  out.err = jpeg_std_error(&errors);
  jpeg_create_compress(&out);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&out, &bytes, &size);
  out.image_width = static_cast<JDIMENSION>(cols);
  out.image_height = static_cast<JDIMENSION>(rows);
  out.input_components = channels;
  out.in_color_space = channels == 4 ? JCS_CMYK : channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&out);
  jpeg_set_quality(&out, 100, TRUE);
  jpeg_start_compress(&out, TRUE);
  std::vector<JSAMPLE> line(static_cast<std::size_t>(cols * channels), value);
  while (out.next_scanline < out.image_height) {
    JSAMPROW row = line.data();
    jpeg_write_scanlines(&out, &row, 1);
    for (JSAMPLE& v : line) v = static_cast<JSAMPLE>(v * 5 + 17);  // so that there are many bytes
  }
  jpeg_finish_compress(&out);
  const std::string text(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&out);
  std::free(bytes);
  return text;
}

std::string bytes(const std::vector<int>& values) {
  std::string out;
  for (const int v : values) out += static_cast<char>(v);
  return out;
}

std::vector<std::uint8_t> pixels_of(const Folder& in, const std::string& content, Index channels, PictureSize size) {
  const std::string file = in.write("one", content);
  CHECK(picture_facts(file).size == size);
  const Picture picture = decode_picture(file, channels);
  CHECK(picture.size == size);
  return picture.pixels;
}

// A TIFF header and one directory with the orientation, in either byte order.
std::string exif(int orientation, bool big) {
  const auto number = [&](std::uint32_t x, int count) {
    std::string out;
    for (int i = 0; i < count; i++) out += static_cast<char>(x >> 8 * (big ? count - 1 - i : i) & 255);
    return out;
  };
  const auto its = static_cast<std::uint32_t>(orientation);
  return (big ? "MM" : "II") + number(42, 2) + number(8, 4) + number(1, 2) + number(0x0112, 2) + number(3, 2) + number(1, 4) +
         number(its, 2) + number(0, 2) + number(0, 4);
}

std::vector<std::uint8_t> from_hex(const std::string& text) {
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i < text.size(); i += 2)
    out.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return out;
}

// What Pillow and torchvision make of the same pictures (tests/golden/pictures.py).
const Json& golden() {
  static const Json json = [] {
    Complaints complaints;
    const std::string file = "tests/golden/pictures.json";
    auto found = read_json(file, read_file(file), complaints);
    complaints.raise();
    return *found;
  }();
  return json;
}
Index number(const Json& of, const char* key) {
  return std::get<std::int64_t>(of.find(key)->value);
}
Index number(const Json& of, const char* key, std::size_t i) {
  return std::get<std::int64_t>(std::get<Json::Array>(of.find(key)->value).at(i).value);
}
const std::string& text(const Json& of, const char* key) {
  return std::get<std::string>(of.find(key)->value);
}

}  // namespace

TEST_CASE("pictures are scaled bit for bit as Pillow scales them, and any part of them is that part of the whole") {
  const auto& cases = std::get<Json::Array>(golden().find("scaled")->value);
  REQUIRE(cases.size() == 9);
  for (const Json& one : cases) {
    Picture picture{{number(one, "rows"), number(one, "cols")}, number(one, "channels"), {}};
    for (Index r = 0; r < picture.size.rows; r++)
      for (Index c = 0; c < picture.size.cols; c++)
        for (Index k = 0; k < picture.channels; k++)
          picture.pixels.push_back(static_cast<std::uint8_t>(r * r * 7 + c * 13 + r * c * 3 + k * 101));
    const Region region{{number(one, "region", 0), number(one, "region", 1)}, {number(one, "region", 2), number(one, "region", 3)}};
    const PictureSize to{number(one, "to", 0), number(one, "to", 1)};
    const auto expected = from_hex(text(one, "pixels"));
    CHECK(resized(picture, region, to, whole(to)) == expected);
    for (const Region& part :
         {Region{{0, 1}, {0, to.cols}}, Region{{to.rows / 2, to.rows}, {1, to.cols - 1}}, Region{{1, 1}, {0, 2}}}) {
      std::vector<std::uint8_t> inside;
      for (Index r = part.rows.begin; r < part.rows.end; r++)
        for (Index c = part.cols.begin; c < part.cols.end; c++)
          for (Index k = 0; k < picture.channels; k++)
            inside.push_back(expected[static_cast<std::size_t>((r * to.cols + c) * picture.channels + k)]);
      CHECK(resized(picture, region, to, part) == inside);
    }
  }
}

TEST_CASE("photographs become the samples that torchvision's transforms make of them") {
  const auto& files = std::get<Json::Array>(golden().find("files")->value);
  REQUIRE(files.size() == 48);
  for (const Json& one : files) {
    const std::string& file = text(one, "file");
    INFO(file);
    const Index rows = number(one, "rows"), cols = number(one, "cols"), channels = number(one, "channels");
    const PictureFiles data(".", {file}, {channels, rows, cols}, {rows, cols, number(one, "shorter")});
    const auto expected = from_hex(text(one, "pixels"));
    const std::vector<double> found = all_of(data, 0);
    // PNG: the same bits. JPEG: libraries' decoders may round differently by 1 before scaling.
    const double most = file.ends_with(".png") ? 0 : 1 / 255.0;
    double worst = 0;
    for (Index c = 0; c < channels; c++)
      for (Index i = 0; i < rows * cols; i++)
        worst = std::max(worst, std::abs(found[static_cast<std::size_t>(c * rows * cols + i)] -
                                         expected[static_cast<std::size_t>(i * channels + c)] / 255.0));
    CHECK(worst <= most + 1e-12);
  }
}

TEST_CASE("pictures are turned as their EXIF says") {
  const Folder in("motley-exif");
  const std::string stored = bytes({1, 2, 3, 4, 5, 6});
  const std::vector<std::pair<PictureSize, std::vector<std::uint8_t>>> seen{
      {{2, 3}, {1, 2, 3, 4, 5, 6}}, {{2, 3}, {3, 2, 1, 6, 5, 4}}, {{2, 3}, {6, 5, 4, 3, 2, 1}}, {{2, 3}, {4, 5, 6, 1, 2, 3}},
      {{3, 2}, {1, 4, 2, 5, 3, 6}}, {{3, 2}, {4, 1, 5, 2, 6, 3}}, {{3, 2}, {6, 3, 5, 2, 4, 1}}, {{3, 2}, {3, 6, 2, 5, 1, 4}}};
  for (int orientation = 1; orientation <= 8; orientation++)
    for (const bool big : {false, true}) {
      const auto& [size, pixels] = seen[static_cast<std::size_t>(orientation - 1)];
      CHECK(pixels_of(in, png(2, 3, 0, stored, 8, chunk("eXIf", exif(orientation, big))), 1, size) == pixels);
      CHECK(picture_facts(in.at("one")).orientation == orientation);
      const std::string app1 = "Exif" + std::string(2, '\0') + exif(orientation, big);
      const std::string plain = jpeg(20, 30, 3, 7);
      const std::string with =
          plain.substr(0, 2) + "\xff\xe1" + be(static_cast<std::uint32_t>(app1.size() + 2)).substr(2) + app1 + plain.substr(2);
      const PictureFacts facts = picture_facts(in.write("j", with));
      CHECK((facts.orientation == orientation && facts.size == (orientation > 4 ? PictureSize{30, 20} : PictureSize{20, 30})));
      CHECK(decode_picture(in.at("j"), 3).size == facts.size);
    }
  // Nothing is turned by what is not an orientation.
  for (const std::string& odd : {exif(0, true), exif(9, false), std::string("II*"), std::string(), std::string(70000, 'x')})
    CHECK(pixels_of(in, png(2, 3, 0, stored, 8, chunk("eXIf", odd)), 1, {2, 3}) == seen[0].second);
  // The EXIF may follow the pixels: headers do not say so.
  const std::string plain = png(2, 3, 0, stored);
  const std::string late = plain.substr(0, plain.size() - 12) + chunk("eXIf", exif(6, false)) + chunk("IEND", "");
  CHECK(picture_facts(in.write("late", late)).orientation == 1);
  CHECK(decode_picture(in.at("late"), 1).pixels == seen[5].second);
}

TEST_CASE("alpha is found by the header, and a picture that is too large is refused before it is decoded") {
  const Folder in("motley-facts");
  const auto alpha = [&](const std::string& content) { return picture_facts(in.write("one", content)).alpha; };
  CHECK(alpha(png(1, 2, 6, bytes({1, 2, 3, 0, 4, 5, 6, 99}))));
  CHECK(alpha(png(1, 2, 4, bytes({9, 0, 8, 77}))));
  CHECK(alpha(png(1, 2, 3, bytes({1, 0}), 8, chunk("PLTE", bytes({1, 2, 3, 4, 5, 6})) + chunk("tRNS", bytes({0, 255})))));
  CHECK(!alpha(png(1, 2, 2, bytes({1, 2, 3, 4, 5, 6}))));
  CHECK(!alpha(jpeg(3, 3, 3, 1)));
  const auto header = [&](std::uint32_t rows, std::uint32_t cols) {
    return in.write("large.png", "\x89PNG\r\n\x1a\n" + chunk("IHDR", be(cols) + be(rows) + std::string("\x08\x02\0\0\0", 5)) +
                                     chunk("IEND", ""));
  };
  CHECK(picture_facts(header(1 << 14, 1 << 14)).size == PictureSize{1 << 14, 1 << 14});
  CHECK_THAT(refused(Exit::data, [&] { picture_facts(header(1 << 14, (1 << 14) + 1)); }),
             Contains("large.png: a picture of 16384 x 16385 pixels; at most 268435456 pixels are read"));
  CHECK_THAT(refused(Exit::data, [&] { decode_picture(header(0x7fffffff, 0x7fffffff), 3); }), Contains("at most 268435456"));
  CHECK_THAT(refused(Exit::data, [&] { decode_picture(header(0, 5), 3); }), Contains("a picture of 0 x 5 pixels"));
}

TEST_CASE("PNG files of every kind become 1 or 3 channels") {
  const Folder in("motley-own-png");
  const std::string colours = bytes({10, 20, 30, 40, 50, 60, 200, 100, 0, 255, 255, 255});
  const std::vector<std::uint8_t> rgb(colours.begin(), colours.end());
  CHECK(pixels_of(in, png(2, 2, 2, colours), 3, {2, 2}) == rgb);
  // (19595 r + 38470 g + 7471 b + 32768) >> 16
  CHECK(pixels_of(in, png(2, 2, 2, colours), 1, {2, 2}) == std::vector<std::uint8_t>{18, 48, 118, 255});
  const std::string grey = bytes({0, 7, 130, 255});
  CHECK(pixels_of(in, png(2, 2, 0, grey), 1, {2, 2}) == std::vector<std::uint8_t>{0, 7, 130, 255});
  CHECK(pixels_of(in, png(2, 2, 0, grey), 3, {2, 2}) == std::vector<std::uint8_t>{0, 0, 0, 7, 7, 7, 130, 130, 130, 255, 255, 255});
  CHECK(pixels_of(in, png(1, 8, 0, bytes({0b10110000}), 1), 1, {1, 8}) == std::vector<std::uint8_t>{255, 0, 255, 255, 0, 0, 0, 0});
  CHECK(pixels_of(in, png(1, 2, 0, bytes({0x12, 0x00, 0xff, 0xff}), 16), 1, {1, 2}) == std::vector<std::uint8_t>{0x12, 0xff});
  CHECK(pixels_of(in, png(1, 2, 6, bytes({1, 2, 3, 0, 4, 5, 6, 99})), 3, {1, 2}) == std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6});
  CHECK(pixels_of(in, png(1, 2, 4, bytes({9, 0, 8, 77})), 1, {1, 2}) == std::vector<std::uint8_t>{9, 8});
  CHECK(pixels_of(in, png(1, 2, 3, bytes({1, 0}), 8, chunk("PLTE", bytes({1, 2, 3, 4, 5, 6}))), 3, {1, 2}) ==
        std::vector<std::uint8_t>{4, 5, 6, 1, 2, 3});
}

TEST_CASE("JPEG files, grey or in colours") {
  const Folder in("motley-own-jpeg");
  const auto rgb = pixels_of(in, jpeg(9, 5, 3, 40), 3, {9, 5}), grey = pixels_of(in, jpeg(9, 5, 1, 40), 1, {9, 5});
  REQUIRE(rgb.size() == 135);
  REQUIRE(grey.size() == 45);
  CHECK(std::abs(rgb[0] - 40) <= 3);
  CHECK(std::abs(grey[5] - (40 * 5 + 17)) <= 3);
  const auto three = pixels_of(in, jpeg(9, 5, 1, 40), 3, {9, 5}), one = pixels_of(in, jpeg(9, 5, 3, 40), 1, {9, 5});
  for (std::size_t i = 0; i < 45; i++) {
    CHECK((three[3 * i] == grey[i] && three[3 * i + 2] == grey[i]));
    CHECK(std::abs(one[i] - grey[i]) <= 3);  // all colours are grey ones
  }
  // Four components: inverted CMYK. All of C, M, Y and K are v: light v of each colour, less the ink's share of it.
  const auto cmyk = pixels_of(in, jpeg(4, 4, 4, 200), 3, {4, 4});
  CHECK(std::abs(cmyk[0] - 200 * 200 / 255) <= 4);
  CHECK((cmyk[0] == cmyk[1] && cmyk[0] == cmyk[2]));
}

TEST_CASE("a damaged picture is refused by name, wherever it is cut") {
  const Folder in("motley-own-bad-picture");
  for (const std::string& good : {png(2, 3, 2, bytes(std::vector<int>(18, 77))), jpeg(40, 3, 3, 9)}) {
    const PictureSize size = good[0] == '\xff' ? PictureSize{40, 3} : PictureSize{2, 3};
    for (std::size_t n = 0; n + 2 < good.size(); n += 3) {  // without its last two bytes a JPEG has all its pixels
      INFO(n << " of " << good.size());
      CHECK_THAT(refused(Exit::data, [&] { decode_picture(in.write("cut", good.substr(0, n)), 3); }), Contains("cut: "));
      PictureSize found = size;
      try {
        found = picture_facts(in.at("cut")).size;
      } catch (const UserError& e) {
        CHECK(e.code() == Exit::data);
      }
      CHECK(found == size);
    }
  }
  for (const auto& [kind, whole] :
       {std::pair<std::string, std::string>{"PNG", png(9, 3, 2, std::string(81, 'x'))}, {"JPEG", jpeg(9, 3, 3, 80)}})
    for (const std::size_t cut : {std::size_t{10}, std::size_t{23}, whole.size() - 30}) {
      in.write("cut", whole.substr(0, cut));
      CHECK_THAT(refused(Exit::data,
                         [&] {
                           cut < 24 ? static_cast<void>(picture_facts(in.at("cut")))
                                    : static_cast<void>(decode_picture(in.at("cut"), 3));
                         }),
                 Contains("cut: a damaged " + kind + " file ("));
    }
  std::string flipped = png(2, 3, 0, bytes({1, 2, 3, 4, 5, 6}));
  flipped[flipped.size() - 20] = static_cast<char>(flipped[flipped.size() - 20] ^ 1);  // of the pixels
  CHECK_THAT(refused(Exit::data, [&] { decode_picture(in.write("flipped", flipped), 1); }),
             Contains("flipped: a damaged PNG file ("));
  CHECK_THAT(refused(Exit::data, [&] { decode_picture(in.write("text", "no picture, but long enough to be one"), 1); }),
             Contains("text: neither a PNG nor a JPEG file; it is a text"));
  CHECK_THAT(refused(Exit::data, [&] { picture_facts(in.write("empty", "")); }),
             Contains("neither a PNG nor a JPEG file; it is empty"));
  CHECK_THAT(refused(Exit::missing, [&] { decode_picture(in.at("none"), 1); }), Contains("none"));
}

TEST_CASE("a folder of pictures: classes by name, files by name") {
  const Folder in("motley-own-folder");
  in.write("d/train/dogs/b.png", png(1, 2, 0, bytes({3, 4})));
  in.write("d/train/dogs/a.PNG", png(1, 2, 2, bytes({10, 20, 30, 40, 50, 60})));
  in.write("d/train/dogs/notes.txt", "no picture");
  in.write("d/train/cats/z.jpeg", jpeg(1, 2, 1, 200));
  in.write("d/train/.hidden/x.png", "");
  in.write("d/test/dogs/t.png", png(1, 2, 0, bytes({255, 0})));
  const Datasets data = load_folder(in.at("d"), {.extents = {1, 1, 2}, .classes = 3});
  CHECK(data.train->samples() == 3);
  CHECK(data.train->classes() == 2);
  CHECK(data.train->label(0) == 0);
  CHECK(data.train->label(1) == 1);
  CHECK(data.test->label(0) == 1);
  CHECK(all_of(*data.train, 1) == std::vector<double>{18 / 255.0, 48 / 255.0});
  CHECK(all_of(*data.train, 2) == std::vector<double>{3 / 255.0, 4 / 255.0});
  const Datasets three = load_folder(in.at("d"));
  CHECK(three.train->sample_extents() == std::vector<Index>{3, 1, 2});
  std::vector<double> blue(1);
  three.train->read(1, {{2, 3}, {0, 1}, {1, 2}}, blue);
  CHECK(blue[0] == 60 / 255.0);
  CHECK(check_folder(in.at("d"), {.extents = {1, 1, 2}}).empty());

  const std::vector<std::string> wrong = check_folder(in.at("d"), {.extents = {1, 1, 3}});
  REQUIRE(wrong.size() == 4);
  for (int n = 0; n < 30; n++) in.write("d/train/dogs/wide" + std::to_string(n) + ".png", png(1, 4, 0, bytes({1, 2, 3, 4})));
  CHECK(check_folder(in.at("d"), {.extents = {1, 1, 2}}).size() == 30);
  CHECK_THAT(wrong[1], Contains("train/dogs/a.PNG: an image of 1 x 2 (rows, columns); expected 1 x 3"));
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       all_of(*load_folder(in.at("d"), {.extents = {1, 1, 3}}).train, 1);
                     }),
             Contains("train/dogs/a.PNG"));
  CHECK_THAT(refused(Exit::config, [&] { load_folder(in.at("d"), {.classes = 1}); }),
             Contains("2 class folders in \"train\" (cats, dogs); the network has 1 classes; give its output dim the size 2"));
  CHECK_THAT(refused(Exit::config, [&] { load_folder(in.at("d"), {.extents = {2, 1, 2}}); }), Contains("channels (1 or 3)"));
  CHECK_THAT(refused(Exit::missing, [&] { load_folder(in.at("none")); }), Contains("none: there is no such folder"));
  CHECK_THAT(refused(Exit::missing, [&] { load_folder(in.at("d/train")); }), Contains("there is no folder \"train\" in it"));
  CHECK_THAT(refused(Exit::missing, [&] { in.write("e/train/x.png", "x"), load_folder(in.at("e")); }),
             Contains("no folders in it"));
  in.write("d/test/dog/t.png", png(1, 2, 0, bytes({255, 0})));
  CHECK_THAT(refused(Exit::data, [&] { load_folder(in.at("d")); }),
             Contains("test/dog: the training data has no class of this name; did you mean \"dogs\"?"));
  // A test part that cannot be one is no reason to evaluate nothing.
  for (const bool link : {false, true}) {
    std::filesystem::remove_all(in.at("d/test"));
    link ? std::filesystem::create_symlink("nowhere", in.at("d/test")) : static_cast<void>(in.write("d/test", "x"));
    CHECK_THAT(refused(Exit::data, [&] { load_folder(in.at("d")); }), Contains("d/test: not a folder; expected test/CLASS/*.png"));
  }
  std::filesystem::remove(in.at("d/test"));
  CHECK(load_folder(in.at("d")).test == nullptr);
  in.write("f/train/empty/x.txt", "");
  CHECK_THAT(refused(Exit::data, [&] { load_folder(in.at("f")); }),
             Contains("f/train: no .png, .jpg or .jpeg file in its class folders"));
}

TEST_CASE("a folder says what it holds and what is passed over") {
  const Folder in("motley-listing");
  const std::string small = png(1, 2, 0, bytes({3, 4}));
  for (const char* name : {"train/cup/a.png", "train/cup/b.JPG", "train/dog/a.jpeg", "val/cup/x.png", "val/dog/x.png"})
    in.write(std::string("d/") + name, small);
  const FolderListing plain = list_folder(in.at("d"));
  CHECK(plain.text() == "5 pictures in 2 classes");
  CHECK(plain.test.name == "val");
  CHECK(test_folder(in.at("d")) == "val");
  for (const char* name :
       {"train/cup/a.webp", "train/cup/._a.png", "train/.DS_Store", "train/readme.txt", "train/cup/more/z.png", "Test/cup/x.png"})
    in.write(std::string("d/") + name, "");
  std::filesystem::create_directories(in.at("d/train/empty"));
  std::filesystem::create_directories(in.at("d/Test/dog"));
  const FolderListing all = list_folder(in.at("d"));
  CHECK(all.test.name == "Test");  // "test" in letters of any size comes before "val"
  CHECK(all.text() ==
        "4 pictures in 3 classes; 1 file of another kind ignored (train/cup/a.webp); 2 hidden files ignored (train/.DS_Store, "
        "train/cup/._a.png); 2 entries that are neither classes nor pictures of one ignored (train/readme.txt, train/cup/more/); 2 "
        "classes are empty (train/empty, Test/dog); 1 folder beside it is not used (val)");
  CHECK(all.classes == std::vector<std::string>{"cup", "dog", "empty"});
  CHECK(all.train.labels == std::vector<std::int32_t>{0, 0, 1});
  const Datasets without = load_folder(in.at("d"), {.extents = {1, 1, 2}}, {.without = {"train/cup/b.JPG"}});
  CHECK(without.train->samples() == 2);
  CHECK(without.train->class_names() == all.classes);
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       list_folder(in.at("d"), {"train/cup/a.png", "train/cup/b.JPG", "train/dog/a.jpeg"});
                     }),
             Contains("that is not damaged"));
  CHECK(pictures_below(in.at("d/train")) == std::vector<std::string>{"cup/a.png", "cup/b.JPG", "cup/more/z.png", "dog/a.jpeg"});
  CHECK_THAT(refused(Exit::missing, [&] { pictures_below(in.at("d/train/empty")); }),
             Contains("no .png, .jpg or .jpeg file in it"));
}

TEST_CASE("decoded pictures are kept, and read again when their file has changed") {
  const Folder in("motley-decoded");
  const std::string file = in.write("d/train/cup/a.png", png(1, 2, 0, bytes({3, 4})));
  const auto data = load_folder(in.at("d"), {.extents = {1, 1, 2}}).train;
  CHECK(all_of(*data, 0) == std::vector<double>{3 / 255.0, 4 / 255.0});
  std::vector<double> second(1);
  data->read(0, {{0, 1}, {0, 1}, {1, 2}}, second);
  CHECK(second[0] == 4 / 255.0);
  in.write("d/train/cup/a.png", png(1, 2, 0, bytes({3, 4}), 8, chunk("tEXt", "of another size")).replace(0, 0, ""));
  CHECK(all_of(*data, 0) == std::vector<double>{3 / 255.0, 4 / 255.0});
  in.write("d/train/cup/a.png", "broken");
  CHECK_THAT(refused(Exit::data, [&] { all_of(*data, 0); }), Contains("a.png: neither a PNG nor a JPEG file"));
  PictureCache cache(10);
  const auto four = std::make_shared<const std::vector<std::uint8_t>>(4);
  for (Index sample = 0; sample < 4; sample++) cache.keep(sample, {1, 1}, four);
  CHECK((cache.find(0, {1, 1}) == four && cache.find(1, {1, 1}) == four && cache.find(2, {1, 1}) == nullptr));
  CHECK((cache.find(0, {1, 2}) == nullptr && cache.has_room(2) && !cache.has_room(3)));
  cache.keep(0, {1, 2}, four);  // in the place of what the file was before
  CHECK((cache.find(0, {1, 2}) == four && !cache.has_room(3)));
}

TEST_CASE("random crops have the areas and ratios that are given, and depend on seed, epoch and sample alone") {
  const RandomCrop how{.least_area = 0.1, .most_area = 0.5, .least_ratio = 0.5, .most_ratio = 2};
  const RandomStream draws(3, "crops");
  double area = 0, wide = 0, left = 0;
  constexpr Index kCount = 4000, kRows = 300, kCols = 500;
  for (Index sample = 0; sample < kCount; sample++) {
    const PictureRegion r = random_region(how, draws, sample, kRows, kCols);
    CHECK((r.rows.begin >= 0 && r.rows.end <= kRows && r.cols.begin >= 0 && r.cols.end <= kCols));
    const double h = static_cast<double>(r.rows.size()), w = static_cast<double>(r.cols.size());
    CHECK((h * w > 0.098 * kRows * kCols && h * w < 0.503 * kRows * kCols && w / h > 0.49 && w / h < 2.05));
    area += h * w / (kRows * kCols) / kCount;
    wide += w > h ? 1.0 / kCount : 0;
    left += static_cast<double>(r.cols.begin) / static_cast<double>(kCols - r.cols.size() + 1) / kCount;
    const PictureRegion again = random_region(how, draws, sample, kRows, kCols);
    CHECK((again.rows == r.rows && again.cols == r.cols));
  }
  CHECK(area == Approx(0.3).margin(0.02));
  CHECK(left == Approx(0.5).margin(0.02));
  CHECK((wide > 0.45 && wide < 0.65));
  // No part of a long strip has such a ratio and a large area: the middle one with the nearest ratio.
  const PictureRegion strip = random_region({.least_area = 0.9}, draws, 0, 10, 1000);
  CHECK((strip.rows == Range{0, 10} && strip.cols == Range{(1000 - 13) / 2, (1000 - 13) / 2 + 13}));

  const Folder in("motley-crops");
  std::vector<int> pixels;
  for (int i = 0; i < 20 * 30; i++) pixels.push_back(i * 7 % 251);
  in.write("d/train/cup/a.png", png(20, 30, 0, bytes(pixels)));
  const auto data = load_folder(in.at("d"), {.extents = {1, 8, 9}}, {.resize = {8, 9}}).train;
  const Augment augment{.flip = true, .crop_padding = 1, .random_crop = RandomCrop{}};
  std::set<std::vector<double>> seen;
  for (Index epoch = 0; epoch < 20; epoch++) {
    const auto view = augmented(data, augment, 1, epoch);
    const std::vector<double> all = all_of(*view, 0);
    seen.insert(all);
    CHECK(all_of(*normalized(augmented(data, augment, 1, epoch), {{0}, {1}}), 0) == all);
    std::vector<double> rows(2 * 9);
    view->read(0, {{0, 1}, {3, 5}, {0, 9}}, rows);
    CHECK(rows == std::vector<double>(all.begin() + 27, all.begin() + 45));
  }
  CHECK(seen.size() > 15);
  const auto synthetic_data = synthetic({1, 4, 4}, 2, 8, 1).train;
  CHECK_THAT(refused(Exit::config, [&] { all_of(*augmented(synthetic_data, augment, 1, 0), 0); }),
             Contains("not pictures of files"));
  CHECK_THAT(refused(Exit::config, [&] { augmented(data, {.random_crop = RandomCrop{.least_area = 0}}, 1, 0); }), Contains("area"));
  CHECK_THAT(refused(Exit::config, [&] { augmented(data, {.random_crop = RandomCrop{.least_ratio = 3}}, 1, 0); }),
             Contains("ratios"));
}

TEST_CASE("a validation part has the same share of each class, and the same samples each time") {
  const Datasets all = synthetic({1, 2, 2}, 4, 403, 5);
  const Datasets split = with_validation(all, 0.1, 7), again = with_validation(all, 0.1, 7), other = with_validation(all, 0.1, 8);
  CHECK(split.train->samples() + split.validation->samples() == 403);
  std::map<std::int32_t, Index> of_class, taken;
  for (Index n = 0; n < 403; n++) of_class[all.train->label(n)]++;
  for (Index n = 0; n < split.validation->samples(); n++) taken[split.validation->label(n)]++;
  for (const auto& [label, count] : of_class)
    CHECK(taken[label] == static_cast<Index>(std::floor(0.1 * static_cast<double>(count) + 0.5)));
  std::set<std::vector<double>> pixels;
  for (const auto& part : {split.train, split.validation})
    for (Index n = 0; n < part->samples(); n++) pixels.insert(all_of(*part, n));
  CHECK(pixels.size() == 403);
  bool differs = false;
  for (Index n = 0; n < split.validation->samples(); n++) {
    CHECK(all_of(*split.validation, n) == all_of(*again.validation, n));
    differs = differs || other.validation->samples() <= n || all_of(*split.validation, n) != all_of(*other.validation, n);
  }
  CHECK(differs);
  CHECK(split.test == all.test);
  // Samples without a class of their own: of all. Further inputs go with their samples.
  const SampleKind kind{.extents = {3}, .classes = 5, .label_extents = {2}, .further = {{.extents = {1}, .input = "mask"}}};
  const Datasets rows = synthetic(kind, 50, 1), some = with_validation(rows, 0.5, 1);
  CHECK(some.validation->samples() == 25);
  for (Index n = 0; n < 25; n++) {
    Index from = 0;
    while (all_of(*rows.train, from) != all_of(*some.validation, n)) from++;
    CHECK(all_of(*some.validation->further().at("mask"), n) == all_of(*rows.train->further().at("mask"), from));
    std::vector<std::int32_t> labels(2), expected(2);
    some.validation->read_labels(n, {{0, 2}}, labels);
    rows.train->read_labels(from, {{0, 2}}, expected);
    CHECK(labels == expected);
  }
  CHECK_THAT(refused(Exit::config, [&] { with_validation(all, 1e-6, 1); }), Contains("takes none of the 403 samples"));
  CHECK_THAT(refused(Exit::config, [&] { with_validation(all, 1, 1); }), Contains("validation"));
  CHECK(with_validation(synthetic({1, 2, 2}, 1, 2, 5), 0.9, 7).train->samples() == 1);  // each class keeps one
}

TEST_CASE("samples that cannot be read are found by several threads, in order") {
  const auto odd = [](Index n) {
    if (n % 7 == 3) throw UserError("sample " + std::to_string(n), Exit::data);
  };
  const auto found = unreadable({1, 200}, 2, odd, {0, 0, 0});
  std::vector<Index> expected;
  for (Index n = 1; n < 200; n += 2)
    if (n % 7 == 3) expected.push_back(n);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); i++)
    CHECK((found[i].sample == expected[i] && found[i].why == "sample " + std::to_string(expected[i])));
  CHECK_THAT(refused(Exit::io,
                     [&] {
                       try {
                         unreadable({0, 50}, 1, [](Index) { throw Error(Exit::io, "a disk"); }, {0});
                       } catch (const Error& e) {
                         throw UserError(e.what(), e.code());
                       }
                     }),
             Contains("a disk"));
}
