// SPDX-License-Identifier: Apache-2.0
// Which part of a picture one epoch of training sees.
#pragma once
#include <motley/data.h>

#include "base/random.h"

namespace motley {

// As torchvision's RandomResizedCrop: ten tries for a part of the area and the ratio that are drawn, the logarithm of the ratio
// uniformly; then the largest middle part of an allowed ratio. Determined by the stream (of seed and epoch) and the sample.
PictureRegion random_region(const RandomCrop& how, const RandomStream& draws, Index sample, Index rows, Index cols);

void check_random_crop(const RandomCrop& how);  // UserError: bounds that exclude each other, or beyond what RandomCrop says

}  // namespace motley
