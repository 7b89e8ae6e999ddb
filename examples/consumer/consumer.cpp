// SPDX-License-Identifier: Apache-2.0
// One piece of motley used alone: where a convolution's output is stored when 240 filters are cut 70 : 25 : 5 over three devices.
#include <motley/layout.h>
#include <motley/mesh.h>
#include <motley/partition.h>

#include <iostream>
#include <vector>

int main() {
  using namespace motley;
  std::vector<Device> devices(3);
  devices[0].name = "big gpu";
  const Mesh mesh({{"all", 3}}, devices);
  const std::vector<double> shares{70, 25, 5};
  const Cut cut{{mesh.axis("all")}, -1, {Partition::proportional(240, shares)}};
  const Layout layout{Shape{{"batch", 128}, {"filters", 240}}, {{"filters", cut}}};
  for (int rank = 0; rank < mesh.ranks(); rank++)
    std::cout << mesh.device(rank).name << " " << to_string(layout.box(mesh, rank)) << "\n";
}
