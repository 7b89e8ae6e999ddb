// SPDX-License-Identifier: Apache-2.0
/// @file
/// All of motley but `motley/mpi.h`.
#pragma once
#include <motley/arrange.h>
#include <motley/backend.h>
#include <motley/balance_dim.h>
#include <motley/data.h>
#include <motley/executor.h>
#include <motley/layout.h>
#include <motley/measure.h>
#include <motley/measure_steps.h>
#include <motley/ops.h>
#include <motley/plan.h>
#include <motley/predictor.h>
#include <motley/profile.h>
#include <motley/redistribute.h>
#include <motley/runtime.h>
#include <motley/svm.h>
#include <motley/trainer.h>
#include <motley/weights.h>
