// SPDX-License-Identifier: Apache-2.0
// What the differences mean: within which bounds they are, as text and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "train/verify.h"
#include "train/verify_parts.h"

namespace motley {

namespace {

// by_plain: no farther than plain kernels explain, too, but for weights: what an optimizer makes of a gradient that is nearly 0
// differs from one run of plain kernels to the next. In bf16 plain kernels may be farther than others: what is fused is not rounded
// in between.
bool is_f32_within(const VerifyReport& report, bool by_plain) {
  const auto own = [&](double Difference::*of) {
    const double device = kOwnDistances * report.alone.*of;
    const double most = report.bf16 ? std::max(device, kOwnDistances * report.plain.*of) : device;
    return by_plain && of != &Difference::weights ? std::min(most, kPlainDistances * report.plain.*of) : most;
  };
  const auto within = [&](double Difference::*of, double most) { return report.f32.*of <= std::max(most, own(of)); };
  // The loss is one number, which may be nearer by chance than what it is made of.
  return within(&Difference::loss, std::max(kF32Values, own(&Difference::logits) / kOwnDistances)) &&
         within(&Difference::logits, kF32Values) && within(&Difference::gradients, kF32Weights) &&
         within(&Difference::weights, kF32Weights) && report.farthest.times <= kGradientDistances;
}

// Whether the unsharded network's own distances explain those of the sharded one, however large they are.
bool is_own_rounding(const Difference& f64, const Difference& nudged) {
  const auto within = [&](double Difference::*of) { return f64.*of <= std::max(kF64, kOwnDistances * nudged.*of); };
  return within(&Difference::loss) && within(&Difference::logits) && within(&Difference::gradients) && within(&Difference::weights);
}

bool is_finite(const Difference& d) {
  return std::isfinite(d.loss) && std::isfinite(d.logits) && std::isfinite(d.gradients) && std::isfinite(d.weights);
}

Json to_json(const Difference& d, bool inference) {
  Json out;
  out.set("loss", d.loss).set("logits", d.logits);
  return inference ? out : out.set("gradients", d.gradients).set("weights", d.weights);
}

}  // namespace

bool VerifyReport::exact() const {
  const auto within = [](double difference, double own, double most = kF64Most) {
    return difference <= std::max(kF64, std::min(most, kOwnDistances * own));
  };
  // Logits and gradients are of the first step, before anything drifts.
  const double later = std::max(f64.adrift, nudged.adrift) > kF64Most ? std::numeric_limits<double>::infinity() : kF64Most;
  return within(f64.loss, nudged.loss, later) && within(f64.logits, nudged.logits) && within(f64.gradients, nudged.gradients) &&
         within(f64.weights, nudged.weights, later);
}

bool VerifyReport::ok() const {
  return exact() && is_f32_within(*this, true);
}

std::string VerifyReport::json() const {
  Json out;
  out.set("ok", ok()).set("f64", to_json(f64, inference)).set("f32", to_json(f32, inference));
  return to_text(out, 2) + "\n";
}

std::string VerifyReport::text() const {
  std::string out = "largest difference from the unsharded network in f64, relative to the tensor's largest value\n";
  const char* const type = bf16 ? "bf16" : "f32";
  auto row = [&](const std::string& name, double a, double b, double most) {
    out += fmt::format("  {:<10} f64 {:9.2e} (at most {:.0e})   {} {:9.2e} (at most {:.0e})\n", name, a, kF64, type, b, most);
  };
  row("loss", f64.loss, f32.loss, kF32Values);
  row("logits", f64.logits, f32.logits, kF32Values);
  if (!inference) {
    row("gradients", f64.gradients, f32.gradients, kF32Weights);
    row("weights", f64.weights, f32.weights, kF32Weights);
  }
  if (nudged.weights > 0) {
    out +=
        "rounding errors grow in this network, in f64 too (up to 4 times these differences is ok): the unsharded network after its "
        "parameters are changed by at most 2^-45\n";
    for (const auto& [what, own] :
         {std::pair{"loss", nudged.loss}, {"logits", nudged.logits}, {"gradients", nudged.gradients}, {"weights", nudged.weights}})
      out += fmt::format("  {:<10} f64 {:9.2e}\n", what, own);
  }
  if (alone.weights > 0 || alone.logits > 0) {
    out += fmt::format(
        "{} rounding errors are large without any cut too (up to 4 times {} is ok, and up to 16 times those of plain loops);\n"
        "the unsharded network by its own kernels and by plain loops\n",
        type, bf16 ? "the larger of these differences" : "these differences");
    for (const auto& [what, of] : {std::pair{"loss", &Difference::loss},
                                   {"logits", &Difference::logits},
                                   {"gradients", &Difference::gradients},
                                   {"weights", &Difference::weights}})
      if (!inference || alone.*of > 0)  // an inference has neither gradients nor updates
        out += fmt::format("  {:<10} {} {:9.2e}   plain {:9.2e}\n", what, type, alone.*of, plain.*of);
  }
  if (ok()) return out + "ok: the sharded network computes what the unsharded one does\n";
  if (diverged && inference) return out + "NOT ok: the unsharded network's own values are not finite\n";
  if (diverged)
    return out +
           "NOT ok: the unsharded network's own values are not finite after these steps; try a smaller learning rate, or --steps "
           "1\n";
  auto name = [&](const char* in, const char* what, double difference, double most, const char* tensor) {
    if (!(difference <= most)) out += fmt::format("  {} {}: largest in {}\n", in, what, tensor);
  };
  name("f64", "gradients", f64.gradients, kF64, f64.worst_gradient);
  name("f64", "weights", f64.weights, kF64, f64.worst_weights);
  name(type, "gradients", f32.gradients, kF32Weights, f32.worst_gradient);
  name(type, "weights", f32.weights, kF32Weights, f32.worst_weights);
  if (!(farthest.times <= kGradientDistances))
    out += fmt::format("  {} gradient of {}: {:.3g} times as far as without any cut (at most {:g})\n", type, farthest.gradient,
                       farthest.times, kGradientDistances);
  if (exact() && !is_finite(f32) && !is_finite(alone))
    return out + fmt::format(
                     "NOT ok in {0}, ok in f64: the network's own values are too large for {0} after these steps; try a smaller "
                     "learning rate, or --steps 1\n",
                     type);
  if (exact() && is_f32_within(*this, false))
    return out +
           fmt::format("NOT ok in {}, without any cut too: a kernel of this device computes other values than plain loops\n", type);
  if (exact())
    return out + fmt::format(
                     "NOT ok in {0}, ok in f64: the cuts are right; {0} loses accuracy (sums that nearly cancel), or a kernel "
                     "does\n",
                     type);
  if (is_own_rounding(f64, nudged))
    return out +
           fmt::format(
               "NOT ok: rounding errors alone change the unsharded network's values this much, and beyond {:.0e} no difference is "
               "accepted; try --steps 1, a smaller learning rate or a larger batch\n",
               kF64Most);
  return out + "NOT ok: the sharded network computes other values than the unsharded one\n";
}

}  // namespace motley
