// SPDX-License-Identifier: Apache-2.0
#include "tests/support/synthetic_profile.h"

#include <cmath>

namespace motley::testing {

namespace {

// A point gives its op and pass the device's rate (Known::modelled).
void add_rate(Profile& profile, int device, KernelOp op, PassKind pass, double flops_per_second) {
  KernelSpec spec;
  spec.op = op;
  spec.pass = pass;
  spec.roles = {.n = 2, .c = 2, .h = 8, .w = 8, .f = 2, .r = 1, .s = 1, .p = 8, .q = 8};
  if (op == KernelOp::attention) spec.made = 1;
  if (op == KernelOp::map) {
    spec.roles = {};
    spec.extents = {64};
    spec.operands = {{DType::f32, {1}}, {DType::f32, {1}}};
  }
  const double seconds = flops(spec) / flops_per_second;
  profile.add({device, spec, {seconds, seconds, seconds, 5}, "synthetic"});
}

}  // namespace

Profile synthetic_profile(const Mesh& mesh, const std::vector<double>& speeds, double bytes_per_second) {
  Profile out;
  for (int r = 0; r < mesh.ranks(); r++) {
    const Device& device = mesh.device(r);
    DeviceFacts& facts = out.devices.emplace_back();
    facts.name = device.name;
    facts.kind = "cpu";
    facts.host = device.host;
    const double rate = 10e9 * speeds[static_cast<std::size_t>(r)];
    for (KernelOp op : {KernelOp::conv2d, KernelOp::dense})
      for (PassKind pass : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter})
        add_rate(out, r, op, pass, rate);
    for (KernelOp op : {KernelOp::max_pool2d, KernelOp::avg_pool2d})
      for (PassKind pass : {PassKind::forward, PassKind::backward_data}) add_rate(out, r, op, pass, rate / 50);
    add_rate(out, r, KernelOp::map, PassKind::forward, rate / 50);
    for (PassKind pass : {PassKind::forward, PassKind::backward_data}) add_rate(out, r, KernelOp::attention, pass, rate);
    for (int q = 0; q < mesh.ranks(); q++)
      if (q != r)
        out.links.push_back({r, q, {{Index{1} << 40, 1e-6, bytes_per_second}}, {{Index{1} << 40, 1e-7, bytes_per_second}}});
  }
  return out;
}

Profile random_profile(const Mesh& mesh, std::mt19937& random) {
  auto between = [&](double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution(0.0, 1.0)(random));
  };
  std::vector<double> speeds;
  for (int r = 0; r < mesh.ranks(); r++) speeds.push_back(between(0.03, 1));
  Profile out = synthetic_profile(mesh, speeds, 1e9);
  for (Link& link : out.links)
    for (auto* segments : {&link.segments, &link.in_place}) segments->front().bytes_per_second = between(1e7, 1e10);
  return out;
}

}  // namespace motley::testing
