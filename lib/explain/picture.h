// SPDX-License-Identifier: Apache-2.0
// What the pictures of a plan are drawn with: SVG elements, a colour for each rank, boxes of a tensor true to scale.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "explain/describe.h"

namespace motley::picture {

struct Colour {
  const char *fill, *ink;
};

// Paul Tol's bright scheme, distinguishable for colour-blind people too. With more ranks colours repeat; every box shows its rank.
inline Colour colour_of(int rank) {
  static constexpr std::array<Colour, 7> colours{{{"#4477aa", "#fff"},
                                                  {"#ee6677", "#111"},
                                                  {"#228833", "#fff"},
                                                  {"#ccbb44", "#111"},
                                                  {"#66ccee", "#111"},
                                                  {"#aa3377", "#fff"},
                                                  {"#bbbbbb", "#111"}}};
  return colours[static_cast<std::size_t>(rank) % colours.size()];
}

// Which no document of XML or HTML may hold.
inline bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
}

inline std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&'   ? "&amp;"
           : c == '<' ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '"' ? "&quot;"
                      : std::string(1, is_control(c) ? '?' : c);
  return out;
}

inline std::string number(double v) {
  return fmt::format("{:.2f}", v);
}

inline std::string short_of(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) end--;
  return text.substr(0, end) + "…";
}

struct Rect {
  double x = 0, y = 0, w = 0, h = 0;
};

class Picture {
 public:
  void text(double x, double y, const std::string& words, const std::string& style = "") {
    body_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\"" + (style.empty() ? "" : " " + style) + ">" + escaped(words) +
             "</text>\n";
  }
  void rect(const Rect& r, const std::string& style, const std::string& title = "") {
    body_ += "<rect x=\"" + number(r.x) + "\" y=\"" + number(r.y) + "\" width=\"" + number(r.w) + "\" height=\"" + number(r.h) +
             "\" " + style + (title.empty() ? "/>\n" : "><title>" + escaped(title) + "</title></rect>\n");
  }
  void line(double x1, double y1, double x2, double y2, const std::string& style) {
    body_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) + "\" " +
             style + "/>\n";
  }
  void path(const std::string& points, const std::string& style, const std::string& title = "") {  // points: of its attribute d
    body_ += "<path d=\"" + points + "\" " + style + (title.empty() ? "/>\n" : "><title>" + escaped(title) + "</title></path>\n");
  }
  std::string whole(double width, double height) const {
    const std::string size = number(width) + "\" height=\"" + number(height);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + size + "\" viewBox=\"0 0 " + number(width) + " " +
           number(height) +
           "\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#222\">\n<rect class=\"paper\" "
           "width=\"" +
           size + "\" fill=\"#fff\"/>\n" + body_ + "</svg>\n";
  }

 private:
  std::string body_{};
};

inline constexpr const char *kGrey = "fill=\"#777\"", *kBold = "font-weight=\"bold\"",
                            *kSmallGrey = "fill=\"#777\" font-size=\"10\"";

// Which dims are drawn across, down, and as separate panels.
struct View {
  int x = -1, y = -1;
  std::vector<std::size_t> panels{};  // further cut dims
};

inline View view_of(const Shape& shape, const std::vector<Shard>& held) {
  std::vector<int> cut, others;
  for (std::size_t i = 0; i < shape.rank(); i++) {
    const bool divided =
        std::any_of(held.begin(), held.end(), [&](const Shard& h) { return h.box[i].begin > 0 || h.box[i].end < shape[i].size; });
    (divided ? cut : others).push_back(static_cast<int>(i));
  }
  View view;
  if (cut.size() >= 2) {
    view.y = cut[0];
    view.x = cut[1];
    for (std::size_t i = 2; i < cut.size(); i++) view.panels.push_back(static_cast<std::size_t>(cut[i]));
  } else {
    view.x = !cut.empty() ? cut[0] : others.empty() ? -1 : others[0];
    for (int o : others)
      if (o != view.x && view.y < 0) view.y = o;
  }
  return view;
}

inline Rect placed(const Rect& in, const Shape& shape, const View& view, const Box& box) {
  Rect out = in;
  if (view.x >= 0) {
    const auto i = static_cast<std::size_t>(view.x);
    const double per = in.w / static_cast<double>(std::max<Index>(shape[i].size, 1));
    out.x = in.x + per * static_cast<double>(box[i].begin);
    out.w = per * static_cast<double>(box[i].size());
  }
  if (view.y >= 0) {
    const auto i = static_cast<std::size_t>(view.y);
    const double per = in.h / static_cast<double>(std::max<Index>(shape[i].size, 1));
    out.y = in.y + per * static_cast<double>(box[i].begin);
    out.h = per * static_cast<double>(box[i].size());
  }
  return out;
}

}  // namespace motley::picture
