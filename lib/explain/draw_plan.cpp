// SPDX-License-Identifier: Apache-2.0
// Which rank stores what of a whole plan, as SVG: a row of small maps for all tensors that look the same.
#include <fmt/format.h>
#include <algorithm>
#include <map>

#include "base/at.h"
#include "base/units.h"
#include "explain/describe.h"
#include "explain/explain.h"
#include "explain/picture.h"
#include "graph/layers.h"
#include "program/layer_seconds.h"

namespace motley::picture {

namespace {

// Tensors of which the same can be drawn, as one row: equal parts on every rank, equal kinds of exchange.
struct OverviewRow {
  std::vector<std::size_t> tensors{};
  std::vector<double> busy{};                          // per rank: of the layers that make them; empty: parameters, no profile
  double waiting = 0;                                  // in exchanges, of the rank that waits longest
  std::vector<std::pair<std::string, Index>> moves{};  // kind, bytes
};

constexpr double kOverviewHigh = 26;

class Overview {
 public:
  Overview(const Plan& plan, const Profile& profile)
      : plan_(plan), d_(plan.data()), ranks_(plan.mesh().ranks()), step_(layer_seconds(d_, profile)) {
    for (const Described& m : describe_exchanges(d_, ranks_)) {
      Index bytes = 0;
      for (Index b : m.bytes) bytes += b;
      moves_[m.tensor].emplace_back(to_string(m.kind), bytes);
    }
    std::map<std::string, std::size_t> known;
    for (std::size_t t = 0; t < d_.tensors.size(); t++) {
      const TensorRole role = d_.passes.tensors[t].role;
      const bool shown =
          role == TensorRole::parameter || role == TensorRole::activation || role == TensorRole::input || role == TensorRole::label;
      if (!shown || d_.passes.tensors[t].of >= 0 || is_inner(d_.passes, static_cast<int>(t))) continue;
      const auto [found, is_new] = known.emplace(key_of(t), rows_.size());
      if (is_new) rows_.emplace_back();
      add(rows_[found->second], t);
    }
  }

  std::string draw() {
    lane_ = std::clamp(560.0 / ranks_, 60.0, 170.0);
    right_ = kMargin + kNames + (lane_ + 12) * ranks_ + 8;
    const double width = right_ + 270;
    picture_.text(kMargin, 32, "Which rank stores what", "font-size=\"18\" font-weight=\"bold\"");
    for (int r = 0; r < ranks_; r++) {
      const double x = left_of(r);
      picture_.rect({x, 46, 14, 14}, std::string("class=\"legend\" rx=\"2\" fill=\"") + colour_of(r).fill + "\"");
      picture_.text(x + 20, 57.5,
                    short_of(std::to_string(r) + "  " + plan_.mesh().device(r).name, static_cast<std::size_t>((lane_ - 20) / 7)));
      if (d_.step_seconds) picture_.text(x, 74, "computes " + seconds_text(at(d_.predicted, r).seconds), kSmallGrey);
    }
    if (d_.step_seconds)
      picture_.text(kMargin, 57.5, "predicted step " + seconds_text(*d_.step_seconds) + modelled_words(plan_.mesh()), kGrey);
    picture_.text(right_, 57.5, "exchanged per step", kGrey);
    double y = 88;
    for (const OverviewRow& row : rows_) y = draw_row(row, y);
    picture_.text(kMargin, y + 12,
                  "Each map spans the complete tensor: cut dims run across and down, true to scale. Gradients are laid out like "
                  "their tensors.",
                  kSmallGrey);
    if (!step_.layers.empty())
      picture_.text(kMargin, y + 26,
                    "Seconds: what each rank computes for these layers in a step, their gradients and updates included.",
                    kSmallGrey);
    return picture_.whole(width, y + 42);
  }

 private:
  static constexpr double kMargin = 24, kNames = 330;

  double left_of(int rank) const { return kMargin + kNames + (lane_ + 12) * rank; }
  const StepTensor& tensor(std::size_t t) const { return d_.passes.tensors[t]; }
  bool is_result(std::size_t t) const { return tensor(t).role == TensorRole::activation; }
  std::vector<std::pair<std::string, Index>> moves_of(std::size_t t) const {
    std::vector<std::pair<std::string, Index>> out;
    for (const std::string& before : {std::string(), std::string("gradient of ")})
      if (const auto found = moves_.find(before + tensor(t).name); found != moves_.end())
        for (const auto& [kind, bytes] : found->second) out.emplace_back((before.empty() ? "" : "its gradient: ") + kind, bytes);
    return out;
  }

  // Everything about a row but names, sizes, bytes and seconds.
  std::string key_of(std::size_t t) const {
    std::string key = std::to_string(static_cast<int>(tensor(t).role));
    const std::vector<Shard> held = resting_boxes(d_, plan_.mesh(), static_cast<int>(t));
    const View view = view_of(tensor(t).shape, held);
    for (const Shard& h : held) {
      const Rect r = placed({0, 0, 100, 100}, tensor(t).shape, view, h.box);
      key += fmt::format(";{} {:.0f} {:.0f} {:.0f} {:.0f}", h.rank, r.x, r.y, r.w, r.h);
    }
    for (const auto& [kind, bytes] : moves_of(t)) key += ";" + kind;
    return key;
  }

  void add(OverviewRow& row, std::size_t t) {
    row.tensors.push_back(t);
    const auto moves = moves_of(t);
    if (row.moves.empty())
      row.moves = moves;
    else
      for (std::size_t k = 0; k < moves.size(); k++) row.moves[k].second += moves[k].second;
    if (!is_result(t)) return;
    for (const LayerSeconds& layer : step_.layers)
      if (layer.layer == tensor(t).name) {
        row.busy.resize(layer.busy.size(), 0);
        for (std::size_t r = 0; r < layer.busy.size(); r++) row.busy[r] += layer.busy[r];
        row.waiting += layer.exchange_seconds();
      }
  }

  double draw_row(const OverviewRow& row, double y) {
    const std::size_t first = row.tensors.front();
    const StepTensor& t = tensor(first);
    std::string words, more;
    for (const Dim& dim : t.shape.dims()) words += (words.empty() ? "" : " × ") + dim.name + " " + std::to_string(dim.size);
    if (const std::size_t others = row.tensors.size() - 1; others > 0) {
      more = " and " + std::to_string(others) + " more";
      words.clear();
      for (std::size_t k = 1; k < row.tensors.size(); k++) words += (k == 1 ? "also " : ", ") + tensor(row.tensors[k]).name;
    }
    picture_.text(kMargin, y + 12, short_of(t.name, 44 - more.size()) + more, t.role == TensorRole::parameter ? "" : kBold);
    picture_.text(kMargin, y + 25, short_of(words, 56), kSmallGrey);
    const std::vector<Shard> held = resting_boxes(d_, plan_.mesh(), static_cast<int>(first));
    const View view = view_of(t.shape, held);
    for (int r = 0; r < ranks_; r++) {
      const Rect here{left_of(r), y, lane_, kOverviewHigh};
      picture_.rect(here, "class=\"whole\" fill=\"#f4f4f4\" stroke=\"#ccc\"");
      for (const Shard& h : held)
        if (h.rank == r)
          picture_.rect(placed(here, t.shape, view, h.box),
                        "class=\"own\" data-rank=\"" + std::to_string(r) + "\" fill=\"" + colour_of(r).fill + "\"",
                        t.name + ", rank " + std::to_string(r) + ": " + box_words(t.shape, h.box));
      if (!row.busy.empty())
        picture_.text(here.x, y + kOverviewHigh + 11, at(row.busy, r) > 0 ? seconds_text(at(row.busy, r)) : "-", kSmallGrey);
    }
    if (held.empty())
      picture_.text(left_of(0) + 6, y + 17, short_of("inside of kernels", static_cast<std::size_t>(lane_ / 6)), kSmallGrey);
    double line = y + 10;
    const auto beside = [&](const std::string& text) {
      picture_.text(right_, line, text, "font-size=\"10\"");
      line += 13;
    };
    for (const auto& [kind, bytes] : row.moves) beside(kind + " " + bytes_text(static_cast<double>(bytes)));
    if (row.waiting > 0) beside("waits of up to " + seconds_text(row.waiting));
    return std::max(y + kOverviewHigh + (row.busy.empty() ? 16 : 24), line + 3);
  }

  const Plan& plan_;
  const PlanData& d_;
  const int ranks_;
  const StepByLayer step_;
  double lane_ = 0, right_ = 0;
  std::map<std::string, std::vector<std::pair<std::string, Index>>> moves_{};  // by tensor: kind, bytes
  std::vector<OverviewRow> rows_{};
  Picture picture_{};
};

}  // namespace

}  // namespace motley::picture

namespace motley {

std::string plan_svg(const Plan& plan, const Profile& profile) {
  return picture::Overview(plan, profile).draw();
}

}  // namespace motley
