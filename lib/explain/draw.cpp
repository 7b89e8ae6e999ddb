// SPDX-License-Identifier: Apache-2.0
// Which rank stores what of a tensor, as SVG: a map of its cut dims, true to scale.
#include <algorithm>
#include <set>

#include "base/at.h"
#include "base/overlaps.h"
#include "base/units.h"
#include "explain/explain.h"
#include "explain/picture.h"

namespace motley::picture {

namespace {

bool overlap(const std::vector<Shard>& held) {
  for (std::size_t i = 0; i < held.size(); i++)
    for (std::size_t k = i + 1; k < held.size(); k++)
      if (overlaps(held[i].box, held[k].box)) return true;
  return false;
}

std::vector<Box> panels_of(const View& view, const std::vector<Shard>& held) {
  std::set<Box> all;
  for (const Shard& h : held) {
    Box here;
    for (std::size_t d : view.panels) here.push_back(h.box[d]);
    all.insert(here);
  }
  if (all.empty()) all.insert(Box{});
  return {all.begin(), all.end()};
}

class TensorPicture {
 public:
  TensorPicture(const Plan& plan, const Profile& profile, int tensor)
      : plan_(plan), profile_(profile), tensor_(tensor), t_(at(plan.data().passes.tensors, tensor)) {}

  std::string draw() {
    const TensorPlan& own = at(plan_.data().tensors, tensor_);
    std::string dims;
    for (const Dim& d : t_.shape.dims()) dims += (dims.empty() ? "" : " × ") + d.name + " " + std::to_string(d.size);
    picture_.text(kMargin, 32, t_.name, "font-size=\"18\" font-weight=\"bold\"");
    const std::vector<Shard> rest = resting_boxes(plan_.data(), plan_.mesh(), tensor_);
    std::string uncut;
    for (std::size_t i = 0; i < t_.shape.rank(); i++)
      if (auto spans = [&](const Shard& h) { return h.box[i].begin == 0 && h.box[i].end == t_.shape[i].size; };
          std::all_of(rest.begin(), rest.end(), spans) && std::all_of(own.home.begin(), own.home.end(), spans))
        uncut += (uncut.empty() ? "   (complete in every box: " : ", ") + t_.shape[i].name;
    const std::string words = dims.empty() ? "scalar" : dims + uncut + (uncut.empty() ? "" : ")");
    picture_.text(kMargin, 52, words, kGrey);
    widest_ = 2 * kMargin + 7.2 * static_cast<double>(words.size());
    double y = legend(72);
    const bool parameter = t_.role == TensorRole::parameter;
    double x = kMargin + kLeft, lowest = y;
    for (const auto& [title, what, held] : std::vector<std::tuple<std::string, std::string, const std::vector<Shard>*>>{
             {parameter ? "Stored by" : "Finished values stored by", "own", &rest},
             {"Owned and updated by", "owner", parameter ? &own.home : nullptr},
             {"Read by", "read", &own.readers}}) {
      if (held == nullptr) continue;
      lowest = std::max(lowest, section(x, y, title, what, *held));
      x += kMap + kLeft + 24;
    }
    const double width = std::max({x - kLeft, 640.0, widest_});
    y = exchanges(lowest + 28);
    return picture_.whole(width, y + 8);
  }

 private:
  static constexpr double kMargin = 24, kLeft = 46, kMap = 250, kHigh = 190, kLane = 54;

  double legend(double y) {
    double x = kMargin;
    for (int r = 0; r < plan_.mesh().ranks(); r++) {
      const std::string words = "rank " + std::to_string(r) + "  " + short_of(plan_.mesh().device(r).name, 24);
      const double w = 30 + 7.2 * static_cast<double>(words.size());
      if (x + w > 900 && x > kMargin) x = kMargin, y += 20;
      picture_.rect({x, y, 14, 14}, std::string("class=\"legend\" rx=\"2\" fill=\"") + colour_of(r).fill + "\"");
      picture_.text(x + 20, y + 11.5, words);
      x += w;
      widest_ = std::max(widest_, x + kMargin);
    }
    return y + 40;
  }

  // One map if no two ranks hold the same elements, else a lane per rank.
  double section(double x, double y, const std::string& title, const std::string& what, const std::vector<Shard>& held) {
    picture_.text(x, y, title, kBold);
    y += 18;
    const View view = view_of(t_.shape, held);
    std::string seen;
    for (const auto& panel : panels_of(view, held)) {
      std::string name;
      for (std::size_t i = 0; i < panel.size(); i++)
        name += (i == 0 ? "" : ", ") + t_.shape[view.panels[i]].name + " " + std::to_string(panel[i].begin) + "–" +
                std::to_string(panel[i].end);
      std::vector<Shard> here;
      for (const Shard& h : held) {
        bool in = true;
        for (std::size_t i = 0; i < panel.size(); i++) in = in && h.box[view.panels[i]] == panel[i];
        if (in) here.push_back(h);
      }
      if (!name.empty()) picture_.text(x, y + 8, name, kSmallGrey), y += 14;
      if (!overlap(here)) {
        y = map({x, y, kMap, kHigh}, view, what, here);
      } else {
        for (int r = 0; r < plan_.mesh().ranks(); r++) {
          std::vector<Shard> own;
          for (const Shard& h : here)
            if (h.rank == r) own.push_back(h);
          picture_.text(x - 6, y + 4 + kLane / 2, std::to_string(r), "text-anchor=\"end\" font-weight=\"bold\"");
          boxes({x, y, kMap, kLane}, view, what, own);
          y += kLane + 6;
        }
        across({x, y - 6 - kLane, kMap, kLane}, view, here);
        y += 22;
      }
      y += 12;
    }
    return y;
  }

  double map(const Rect& here, const View& view, const std::string& what, const std::vector<Shard>& held) {
    boxes(here, view, what, held);
    across(here, view, held);
    if (view.y >= 0) {
      const auto d = static_cast<std::size_t>(view.y);
      picture_.text(here.x - 32, here.y + here.h / 2, t_.shape[d].name,
                    "fill=\"#777\" text-anchor=\"middle\" transform=\"rotate(-90 " + number(here.x - 32) + " " +
                        number(here.y + here.h / 2) + ")\"");
      double last = -100;
      for (const auto& [v, p] : ticks(here.y, here.h, d, held)) {
        if (p - last < 11) continue;
        picture_.line(here.x - 4, p, here.x, p, "stroke=\"#777\"");
        picture_.text(here.x - 6, p + 3.5, std::to_string(v), "text-anchor=\"end\" fill=\"#777\" font-size=\"10\"");
        last = p;
      }
    }
    return here.y + here.h + 26;
  }

  std::vector<std::pair<Index, double>> ticks(double from, double length, std::size_t dim, const std::vector<Shard>& held) const {
    std::set<Index> here{0, t_.shape[dim].size};
    for (const Shard& h : held) here.insert({h.box[dim].begin, h.box[dim].end});
    std::vector<std::pair<Index, double>> out;
    for (Index v : here)
      out.emplace_back(v, from + length * static_cast<double>(v) / static_cast<double>(std::max<Index>(t_.shape[dim].size, 1)));
    return out;
  }

  void across(const Rect& here, const View& view, const std::vector<Shard>& held) {
    if (view.x < 0) return;
    const auto d = static_cast<std::size_t>(view.x);
    double last = -100;
    for (const auto& [v, p] : ticks(here.x, here.w, d, held)) {
      if (p - last < 8 + 6.5 * static_cast<double>(std::to_string(v).size())) continue;
      picture_.line(p, here.y + here.h, p, here.y + here.h + 4, "stroke=\"#777\"");
      picture_.text(p, here.y + here.h + 14, std::to_string(v), "text-anchor=\"middle\" fill=\"#777\" font-size=\"10\"");
      last = p;
    }
    picture_.text(here.x + here.w / 2, here.y + here.h + 26, t_.shape[d].name, "text-anchor=\"middle\" fill=\"#777\"");
  }

  void boxes(const Rect& here, const View& view, const std::string& what, const std::vector<Shard>& held) {
    picture_.rect(here, "class=\"whole\" fill=\"#f4f4f4\" stroke=\"#bbb\" stroke-dasharray=\"3 2\"");
    for (const Shard& h : held) {
      const Rect r = placed(here, t_.shape, view, h.box);
      const Colour c = colour_of(h.rank);
      picture_.rect(
          r, "class=\"" + what + "\" data-rank=\"" + std::to_string(h.rank) + "\" fill=\"" + c.fill + "\" stroke=\"#fff\"",
          "rank " + std::to_string(h.rank) + " (" + plan_.mesh().device(h.rank).name + "): " + box_words(t_.shape, h.box));
      if (r.w >= 14 && r.h >= 14)
        picture_.text(r.x + r.w / 2, r.y + r.h / 2 + 4.5, std::to_string(h.rank),
                      std::string("text-anchor=\"middle\" font-weight=\"bold\" fill=\"") + c.ink + "\"");
    }
  }

  double exchanges(double y) {
    const std::vector<Movement> all = movements_of(plan_, profile_, tensor_);
    picture_.text(kMargin, y, all.empty() ? "Not exchanged between ranks" : "Exchanged per step", kBold);
    y += 22;
    for (const Movement& m : all) {
      double x = kMargin;
      picture_.text(x, y, to_string(m.kind));
      for (const int r : {m.from, m.to}) {
        x += r == m.from && x < 100 ? 110 : 70;
        picture_.rect({x, y - 12, 22, 16}, std::string("class=\"end\" rx=\"3\" fill=\"") + colour_of(r).fill + "\"");
        picture_.text(x + 11, y, std::to_string(r),
                      std::string("text-anchor=\"middle\" font-weight=\"bold\" fill=\"") + colour_of(r).ink + "\"");
      }
      picture_.line(x - 44, y - 4, x - 10, y - 4, "stroke=\"#555\" stroke-width=\"1.5\"");
      picture_.line(x - 15, y - 8, x - 10, y - 4, "stroke=\"#555\" stroke-width=\"1.5\"");
      picture_.line(x - 15, y, x - 10, y - 4, "stroke=\"#555\" stroke-width=\"1.5\"");
      picture_.text(x + 110, y, bytes_text(static_cast<double>(m.bytes)), "text-anchor=\"end\"");
      picture_.text(x + 190, y, profile_.empty() ? "" : seconds_text(m.seconds), "text-anchor=\"end\"");
      std::string what;
      for (std::size_t i = 0; i < std::min<std::size_t>(m.boxes.size(), 2); i++)
        what += (i == 0 ? "" : "; ") + box_words(t_.shape, m.boxes[i]);
      if (m.boxes.size() > 2) what += "; and " + std::to_string(m.boxes.size() - 2) + " more";
      picture_.text(x + (profile_.empty() ? 130 : 210), y, short_of(what + (m.step == "add" ? ", partial sums" : ""), 60), kGrey);
      y += 21;
    }
    return y;
  }

  const Plan& plan_;
  const Profile& profile_;
  int tensor_;
  const StepTensor& t_;
  Picture picture_{};
  double widest_ = 0;  // of a line of text
};

}  // namespace

}  // namespace motley::picture

namespace motley {

std::string explain_svg(const Plan& plan, const Profile& profile, const std::string& tensor) {
  return tensor.empty() ? plan_svg(plan, profile)
                        : picture::TensorPicture(plan, profile, find_tensor(plan.data().passes, tensor)).draw();
}

}  // namespace motley
