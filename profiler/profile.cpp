// SPDX-License-Identifier: Apache-2.0
// Stores measured points and makes estimates from them. A query hashes the spec at most five times; only for a kernel unlike all
// measured ones it goes through those of its op and pass.
#include <motley/profile.h>

#include <motley/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "base/hash.h"
#include "kernels/kernel_spec_fields.h"
#include "profiler/modelled.h"
#include "profiler/scaled.h"

namespace motley {

namespace {

template <class... T>
std::size_t hash_of_all(const T&... values) {
  Hash hash;
  (hash.add(values), ...);
  return hash.value();
}
std::size_t key_of(int device, const KernelSpec& spec) {
  return hash_of_all(device, spec);
}
std::size_t rate_key(int device, const KernelSpec& spec) {
  return hash_of_all(device, spec.op, spec.pass, spec.dtype);
}

// The time of a map is proportional to its elements, that of attention to the products of a query and a key; the other ops have
// steps along each of these extents.
bool by_element(const KernelSpec& spec) {
  return spec.op == KernelOp::map || spec.op == KernelOp::attention;
}
std::span<Index Roles::*const> cut_roles(const KernelSpec& spec) {
  static constexpr Index Roles::*kAll[] = {&Roles::n, &Roles::c, &Roles::f, &Roles::g};
  return std::span(kAll).first(spec.op == KernelOp::conv2d || spec.op == KernelOp::dense ? 4 : 2);
}

// The family key for maps whose formulas differ only in constants and that access their operands in the same order, and for
// attention with heads of one size.
std::size_t element_family(int device, KernelSpec spec) {
  spec.roles = {.c = spec.op == KernelOp::attention ? spec.roles.c : 1};
  for (Instruction& s : spec.formula.code) s.value = 0;
  std::fill(spec.origin.begin(), spec.origin.end(), 0);
  spec.made = std::min<Index>(spec.made, 1);
  spec.share = std::min<Index>(spec.share, 1);
  spec.heads = 1;
  spec.scale = spec.scale != 1 ? 2 : 1;
  std::fill(spec.extents.begin(), spec.extents.end(), 1);
  for (MapOperand& operand : spec.operands) {
    const std::vector<Index> strides = operand.strides;
    for (Index& s : operand.strides)
      if (s != 0) s = 1 + std::count_if(strides.begin(), strides.end(), [&](Index other) { return other != 0 && other < s; });
  }
  return key_of(device, spec);
}

Index elements_or_flops(const KernelSpec& spec) {
  if (spec.op == KernelOp::attention) return static_cast<Index>(flops(spec));
  Index n = 1;
  for (Index e : spec.extents) n *= e;
  return n;
}

std::size_t role_family(int device, const KernelSpec& spec, Index Roles::*role, std::size_t which) {
  KernelSpec family = spec;
  family.roles.*role = -1;
  return hash_of_all(device, family, which);
}

// The key for what a device supports or not regardless of extents.
std::size_t kind_of(int device, const KernelSpec& spec) {
  if (by_element(spec)) return element_family(device, spec);
  KernelSpec kind = spec;
  kind.roles = {
      .c = spec.roles.g > 1 && spec.roles.c == 1 ? 1 : 2, .r = spec.roles.r, .s = spec.roles.s, .g = spec.roles.g > 1 ? 2 : 1};
  kind.padding = kind.halo = {};
  return key_of(device, kind);
}

std::size_t epilogue_key(int device, const KernelSpec& spec) {
  return hash_of_all(device, spec.op, spec.bias, spec.epilogue);
}
double results_of(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  return static_cast<double>(e.g * e.n * e.f * (spec.op == KernelOp::conv2d ? e.p * e.q : 1));
}

bool same_but(const KernelSpec& a, const KernelSpec& b, Index Roles::*role) {
  KernelSpec c = a;
  c.roles.*role = b.roles.*role;
  return c == b;
}

// The first point of a family that is at least so large.
template <class Family>
auto first_not_below(Family& family, Index extent) {
  return std::lower_bound(family.begin(), family.end(), extent, [](const auto& point, Index e) { return point.extent < e; });
}

// A bias, an epilogue and a sum are fused into a convolution or a dense layer: points are kept and looked up without them.
KernelSpec bare(KernelSpec spec) {
  if (spec.op == KernelOp::conv2d || spec.op == KernelOp::dense) {
    spec.bias = false;
    spec.accumulate = false;
    spec.epilogue = {};
  }
  return spec;
}

constexpr std::size_t kNearest = 3;

// How unlike two kernels of one op and pass are: the sum of the logarithms of their extents' ratios. At least `most`: no less than
// it, not added up to the end.
using Extents = std::array<double, 10>;  // logarithms
Extents extents_of(const KernelSpec& spec) {
  const auto log = [](double extent) { return std::log2(extent + 1); };
  if (by_element(spec)) return {log(flops(spec)), log(static_cast<double>(spec.operands.size()))};
  Extents out{};
  std::size_t i = 0;
  for (Index Roles::*const role :
       {&Roles::n, &Roles::c, &Roles::h, &Roles::w, &Roles::f, &Roles::r, &Roles::s, &Roles::p, &Roles::q, &Roles::g})
    out[i++] = log(static_cast<double>(spec.roles.*role));
  return out;
}
double distance_of(const KernelSpec& a, const Extents& extents_a, const KernelSpec& b, const Extents& extents_b, double most) {
  double sum = (a.stride == b.stride ? 0 : 1) + (a.dilation == b.dilation ? 0 : 1);
  for (std::size_t i = 0; i < extents_a.size() && sum < most; i++) sum += std::abs(extents_a[i] - extents_b[i]);
  return sum;
}

}  // namespace

struct Profile::Scaled {
  std::once_flag once{};
  std::optional<ScaledKernels> kernels{};
};

std::shared_ptr<Profile::Scaled> Profile::not_scaled() {
  return std::make_shared<Scaled>();
}

const ScaledKernels& Profile::scaled() const {
  std::call_once(scaled_->once, [&] {
    std::vector<MeasuredKernel> timed;
    for (const KernelPoint& p : kernels_)
      if (p.supported && !by_element(p.spec) && p.spec == bare(p.spec))
        timed.push_back({p.device, kind_of(p.device, p.spec), p.spec, p.seconds.typical()});
    scaled_->kernels.emplace(std::move(timed));
  });
  return *scaled_->kernels;
}

std::optional<EstimateError> Profile::estimate_error(int device) const {
  return scaled().error(device);
}

const KernelPoint* Profile::find(int device, const KernelSpec& spec) const {
  if (const auto found = by_hash_.find(key_of(device, spec)); found != by_hash_.end())
    for (std::size_t i : found->second)
      if (kernels_[i].device == device && kernels_[i].spec == spec) return &kernels_[i];
  return nullptr;
}

bool Profile::supports(int device, const KernelSpec& spec) const {
  if (unsupported_.empty() || flops(spec) == 0) return true;
  const KernelSpec without = bare(spec);
  for (const KernelSpec* one : {&spec, &without})
    if (const KernelPoint* point = find(device, *one)) return point->supported;
  const auto unsupported = [&](const KernelSpec& one) {
    const std::size_t kind = kind_of(device, one);
    return unsupported_.contains(kind) && !supported_.contains(kind);
  };
  return !unsupported(spec) && !unsupported(without);
}

bool Profile::timed(int device, const KernelSpec& spec) const {
  const KernelPoint* point = find(device, spec);
  return point != nullptr && point->supported;
}

std::string Profile::implementation(int device, const KernelSpec& spec) const {
  const KernelPoint* point = find(device, spec);
  return point == nullptr || point->choices < 2 ? "" : point->implementation;
}

void Profile::add(KernelPoint point) {
  point.spec.accumulate = false;
  if (point.choices < 2 && point.supported && point.spec.epilogue.code.empty()) point.spec = bare(std::move(point.spec));
  for (const double seconds : {point.seconds.min, point.seconds.q25, point.seconds.median})
    if (!std::isfinite(seconds) || seconds < 0) throw UserError("a kernel's seconds must be numbers of at least 0");
  if (point.device < 0) throw UserError("a kernel's device is the number of a rank, from 0, not " + std::to_string(point.device));
  std::vector<std::size_t>& same = by_hash_[key_of(point.device, point.spec)];
  const auto old = std::find_if(same.begin(), same.end(), [&](std::size_t i) {
    return kernels_[i].device == point.device && kernels_[i].spec == point.spec;
  });
  std::size_t at = kernels_.size();
  const bool is_new = old == same.end() || !kernels_[*old].supported;
  if (old == same.end()) {
    same.push_back(at);
    kernels_.push_back(std::move(point));
  } else {
    at = *old;
    if (kernels_[at].supported && (!point.supported || point.seconds.typical() >= kernels_[at].seconds.typical())) return;
    kernels_[at] = std::move(point);
  }
  scaled_ = not_scaled();
  const KernelPoint& p = kernels_[at];
  (p.supported ? supported_ : unsupported_).insert(kind_of(p.device, p.spec));
  if (!p.supported) return;
  if (p.spec != bare(p.spec)) return add_epilogue(p);
  if (is_new) by_rate_[rate_key(p.device, p.spec)].push_back({extents_of(p.spec), at});
  add_to_families(at);
}

void Profile::scale(int device, double factor) {
  std::vector<KernelPoint> points = std::move(kernels_);
  kernels_.clear();
  by_hash_.clear();
  by_family_.clear();
  supported_.clear();
  unsupported_.clear();
  epilogues_.clear();
  by_rate_.clear();
  for (KernelPoint& p : points) {
    if (p.device == device)
      for (double* seconds : {&p.seconds.min, &p.seconds.q25, &p.seconds.median}) *seconds *= factor;
    add(std::move(p));
  }
}

// Records the seconds beyond those of the same kernel without bias and epilogue, if that was timed before.
void Profile::add_epilogue(const KernelPoint& point) {
  const KernelPoint* without = find(point.device, bare(point.spec));
  if (point.spec.epilogue.code.empty() || without == nullptr || !without->supported) return;
  Mean& mean = epilogues_[epilogue_key(point.device, point.spec)];
  mean.sum += std::max(0.0, point.seconds.typical() - without->seconds.typical()) / results_of(point.spec);
  mean.count++;
}

void Profile::add_to_families(std::size_t point) {
  const KernelPoint& p = kernels_[point];
  auto add_to = [&](std::size_t key, Index extent) {
    std::vector<FamilyPoint>& family = by_family_[key];
    const auto at = first_not_below(family, extent);
    if (at == family.end() || at->extent != extent)
      family.insert(at, {extent, point});
    else if (p.seconds.typical() <= kernels_[at->point].seconds.typical())
      at->point = point;
  };
  if (by_element(p.spec)) return add_to(element_family(p.device, p.spec), elements_or_flops(p.spec));
  const auto roles = cut_roles(p.spec);
  for (std::size_t i = 0; i < roles.size(); i++) add_to(role_family(p.device, p.spec, roles[i], i), p.spec.roles.*roles[i]);
}

// Samples have no granule: interpolates between the nearest measured numbers of samples, or from 0 seconds for 0 samples.
double Profile::between(const FamilyPoint* below, const FamilyPoint& above, Index samples) const {
  const double first = below == nullptr ? 0 : kernels_[below->point].seconds.typical(),
               last = kernels_[above.point].seconds.typical();
  const Index from = below == nullptr ? 0 : below->extent;
  return first + (last - first) * static_cast<double>(samples - from) / static_cast<double>(above.extent - from);
}

Estimate Profile::seconds(int device, const KernelSpec& spec) const {
  if (flops(spec) == 0) return {0, Known::measured};  // nothing to compute
  if (const auto found = modelled.find(device); found != modelled.end())
    return {seconds_by_numbers(*found->second, spec), Known::modelled};
  if (!supports(device, spec)) return {kImpossibleSeconds, Known::measured};
  Estimate out = bare_seconds(device, bare(spec));
  if (spec.epilogue.code.empty()) return out;
  if (const KernelPoint* point = find(device, spec); point != nullptr) return {point->seconds.typical(), Known::measured};
  if (const auto mean = epilogues_.find(epilogue_key(device, spec)); mean != epilogues_.end())
    out.seconds += mean->second.sum / mean->second.count * results_of(spec);
  return out;
}

Estimate Profile::bare_seconds(int device, const KernelSpec& spec) const {
  const double work = flops(spec);
  if (const KernelPoint* point = find(device, spec); point != nullptr) return {point->seconds.typical(), Known::measured};

  if (by_element(spec)) {
    if (const auto family = by_family_.find(element_family(device, spec)); family != by_family_.end()) {
      auto near = first_not_below(family->second, elements_or_flops(spec));
      if (near == family->second.end()) --near;
      const KernelPoint& p = kernels_[near->point];
      if (near->extent > 0)
        return {p.seconds.typical() * static_cast<double>(elements_or_flops(spec)) / static_cast<double>(near->extent),
                Known::interpolated};
    }
  } else {
    double step = HUGE_VAL, past = HUGE_VAL, past_work = 0;
    const auto roles = cut_roles(spec);
    for (std::size_t i = 0; i < roles.size(); i++) {
      const auto family = by_family_.find(role_family(device, spec, roles[i], i));
      if (family == by_family_.end()) continue;
      const auto near = first_not_below(family->second, spec.roles.*roles[i]);
      const FamilyPoint& at = near == family->second.end() ? family->second.back() : *near;
      const KernelPoint& p = kernels_[at.point];
      if (p.device != device || !same_but(p.spec, spec, roles[i])) continue;  // another family with the same hash
      const double known = flops(p.spec);
      if (near != family->second.end() && roles[i] == &Roles::n) {
        step = std::min(step, between(near == family->second.begin() ? nullptr : &*(near - 1), *near, spec.roles.n));
      } else if (near != family->second.end()) {
        step = std::min(step, p.seconds.typical());
      } else if (known > past_work) {  // the nearest of the points that were measured only below
        past_work = known;
        past = p.seconds.typical() * work / known;
      }
    }
    if (step < HUGE_VAL) return {step, Known::interpolated};
    if (past < HUGE_VAL) return {past, Known::interpolated};
    if (const std::optional<EstimateError> error = scaled().error(device))
      if (const std::optional<double> estimate = scaled().seconds(kind_of(device, spec), spec))
        return {*estimate * (1 + error->q90), Known::scaled, error->q90};
  }
  return {modelled_seconds(device, spec), Known::modelled};
}

// Never faster than the slowest of the nearest measured kernels of that op and pass: a search that takes its plans' kernels for
// faster than they are is drawn to what was never timed.
double Profile::modelled_seconds(int device, const KernelSpec& spec) const {
  const double work = flops(spec);
  const auto points = by_rate_.find(rate_key(device, spec));
  if (points == by_rate_.end()) return work / kUnknownRate;
  struct Near {
    double distance = HUGE_VAL, rate = 0;
  };
  std::array<Near, kNearest> nearest{};  // the farthest first
  const Extents extents = extents_of(spec);
  for (const RatePoint& one : points->second) {
    const KernelPoint& p = kernels_[one.point];
    const double distance = distance_of(p.spec, one.extents, spec, extents, nearest.front().distance);
    if (distance >= nearest.front().distance || p.seconds.typical() <= 0) continue;
    nearest.front() = {distance, flops(p.spec) / p.seconds.typical()};
    std::sort(nearest.begin(), nearest.end(), [](const Near& a, const Near& b) { return a.distance > b.distance; });
  }
  double rate = HUGE_VAL;
  for (const Near& n : nearest)
    if (n.rate > 0) rate = std::min(rate, n.rate);
  return work / (std::isfinite(rate) ? rate : kUnknownRate);
}

Index Profile::workspace_bytes(int device, const KernelSpec& spec) const {
  if (const KernelPoint* point = find(device, spec); point != nullptr) return point->workspace_bytes;
  const KernelSpec without = bare(spec);
  // An epilogue that rounds to bf16 may be computed from the contraction's result in f32 (kernels/loops).
  const bool rounds = !spec.epilogue.code.empty() && spec.result == DType::bf16;
  const Index of_result = rounds ? static_cast<Index>(results_of(spec)) * static_cast<Index>(sizeof(float)) : 0;
  if (const KernelPoint* point = find(device, without); point != nullptr) return point->workspace_bytes + of_result;
  std::optional<Index> larger, smaller;  // the least of those that the nearest points suggest
  const auto consider = [&](std::size_t key, Index extent) {
    const auto family = by_family_.find(key);
    if (family == by_family_.end()) return;
    const auto near = first_not_below(family->second, extent);
    const KernelPoint& p = kernels_[(near == family->second.end() ? family->second.back() : *near).point];
    const double times = near == family->second.end() ? flops(without) / std::max(flops(p.spec), 1.0) : 1;
    std::optional<Index>& least = near == family->second.end() ? smaller : larger;
    const auto bytes = static_cast<Index>(std::ceil(static_cast<double>(p.workspace_bytes) * std::max(times, 1.0)));
    least = std::min(least.value_or(bytes), bytes);
  };
  if (by_element(without)) {
    consider(element_family(device, without), elements_or_flops(without));
  } else {
    const auto roles = cut_roles(without);
    for (std::size_t i = 0; i < roles.size(); i++) consider(role_family(device, without, roles[i], i), without.roles.*roles[i]);
  }
  return larger ? *larger + of_result : smaller ? *smaller + of_result : 0;
}

namespace {

constexpr LinkSegment kUnknownLink{0, 5e-6, 2e9};

const LinkSegment& segment_of(const std::vector<LinkSegment>& segments, Index bytes) {
  for (const LinkSegment& s : segments)
    if (bytes <= s.bytes_up_to) return s;
  return segments.back();
}
double seconds_of(const LinkSegment& segment, Index bytes) {
  return segment.seconds + static_cast<double>(bytes) / segment.bytes_per_second;
}

}  // namespace

const Link* Profile::link(int from, int to) const {
  const auto is = [&](const Link& l) { return l.from == from && l.to == to; };
  const auto a = static_cast<std::size_t>(from), b = static_cast<std::size_t>(to);
  const std::size_t place = a * (devices.size() - 1) + b - (a < b ? 1 : 0);  // of a list of all links by (from, to), as measured
  if (place < links.size() && is(links[place])) return &links[place];
  const auto found = std::find_if(links.begin(), links.end(), is);
  return found == links.end() ? nullptr : &*found;
}

Estimate Profile::wire_seconds(int from, int to, Index bytes) const {
  if (from == to) return {0, Known::measured};
  if (const Link* known = link(from, to); known != nullptr && !known->segments.empty())
    return {seconds_of(segment_of(known->segments, bytes), bytes),
            modelled.contains(from) || modelled.contains(to) ? Known::modelled : Known::measured};
  return {seconds_of(kUnknownLink, bytes), Known::modelled};
}

double Profile::card_seconds(int from, int to, Index bytes) const {
  if (from == to) return 0;
  const Link* known = link(from, to);
  const LinkSegment& segment = known != nullptr && !known->segments.empty() ? segment_of(known->segments, bytes) : kUnknownLink;
  return static_cast<double>(bytes) / segment.bytes_per_second;
}

std::vector<int> Profile::hosts() const {
  std::map<std::string, int> first;
  std::vector<int> out;
  for (const DeviceFacts& d : devices) out.push_back(first.try_emplace(d.host, static_cast<int>(out.size())).first->second);
  return out;
}

Estimate Profile::in_place_seconds(int from, int to, Index bytes) const {
  if (from == to || bytes == 0) return {0, Known::measured};
  if (const Link* known = link(from, to); known != nullptr && !known->in_place.empty())
    return {seconds_of(segment_of(known->in_place, bytes), bytes), Known::measured};
  return {static_cast<double>(bytes) / 10e9, Known::modelled};
}

Estimate Profile::exchange_seconds(int from, int to) const {
  if (from == to) return {0, Known::measured};
  if (const Link* known = link(from, to); known != nullptr && known->exchange_seconds)
    return {*known->exchange_seconds, Known::measured};
  return {kUnknownExchangeSeconds, Known::modelled};
}

double Profile::to_device_seconds(int device, Index bytes) const {
  for (const DeviceLink& link : device_links)
    if (link.device == device) return seconds_of(segment_of(link.to_device, bytes), bytes);
  return 0;
}

double Profile::from_device_seconds(int device, Index bytes) const {
  for (const DeviceLink& link : device_links)
    if (link.device == device) return seconds_of(segment_of(link.from_device, bytes), bytes);
  return 0;
}

Estimate Profile::seconds(int from, int to, Index bytes) const {
  Estimate out = wire_seconds(from, to, bytes);
  if (from == to) return out;
  const Index piece = std::min(bytes, kStagedBytes);
  const double down = from_device_seconds(from, piece), up = to_device_seconds(to, piece);
  if (down == 0 && up == 0) return out;
  const double wire = wire_seconds(from, to, piece).seconds,
               more = bytes > piece ? static_cast<double>(bytes - piece) / static_cast<double>(piece) : 0;
  out.seconds = down + wire + up + more * std::max({down, wire, up});  // the slowest of the three sets the pace
  return out;
}

}  // namespace motley
