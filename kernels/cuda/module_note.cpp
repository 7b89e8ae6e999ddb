// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/module_note.h"

namespace motley {

extern const ModuleNote kModuleNote;
__attribute__((section(".note.motley"), used, aligned(4))) const ModuleNote kModuleNote = module_note();

}  // namespace motley
