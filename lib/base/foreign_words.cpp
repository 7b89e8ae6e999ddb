// SPDX-License-Identifier: Apache-2.0
#include "base/foreign_words.h"

#include <algorithm>
#include <map>

namespace motley {

namespace {

using Words = std::vector<std::string>;

// "Kernel_Size" -> "kernelsize"
std::string bare(const std::string& word) {
  std::string out;
  for (const char c : word) {
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out += c;
  }
  return out;
}

// motley's word -> the words of other systems.
const std::map<std::string, Words>& others() {
  static const std::map<std::string, Words> table{
      {"window", {"kernel", "kernelsize", "ksize", "filtersize", "poolsize", "kernelshape"}},
      {"out", {"outchannels", "outfeatures", "numfilters", "nfilters", "filters", "units", "nout", "outputs"}},
      {"in", {"inchannels", "infeatures", "nin"}},
      {"stride", {"strides"}},
      {"dilation", {"dilations", "dilationrate"}},
      {"padding", {"pad", "pads", "paddings"}},
      {"activation", {"act", "nonlinearity"}},
      {"op", {"type", "layer", "classname"}},
      {"from", {"inputs", "input", "bottom", "src"}},
      {"conv2d", {"conv", "convolution", "convolution2d", "nnconv2d"}},
      {"dense", {"linear", "fc", "fullyconnected", "affine", "gemm", "innerproduct"}},
      {"max_pool2d", {"maxpool", "maxpooling", "maxpooling2d"}},
      {"avg_pool2d", {"avgpool", "averagepool", "averagepooling2d", "meanpool"}},
      {"global_avg_pool2d", {"adaptiveavgpool2d", "globalaveragepooling2d", "globalaveragepool", "gap"}},
      {"conv_transpose2d", {"conv2dtranspose", "convtranspose", "transposedconv2d", "deconv", "deconv2d", "deconvolution"}},
      {"upsample2d", {"upsample", "upsampling", "upsampling2d", "interpolate", "resize"}},
      {"scale", {"scalefactor", "factor"}},
      {"attention", {"multiheadattention", "selfattention", "mha"}},
      {"heads", {"numheads", "nheads", "nhead"}},
      {"batch_norm", {"batchnorm", "batchnorm2d", "batchnormalization", "bn"}},
      {"group_norm", {"groupnormalization"}},
      {"groups", {"numgroups", "group"}},
      {"layer_norm", {"layernorm", "layernormalization"}},
      {"rms_norm", {"rmsnorm"}},
      {"hard_swish", {"hardswish"}},
      {"leaky_relu", {"leakyrelu"}},
      {"silu", {"swish"}},
      {"mul", {"multiply", "prod"}},
      {"sub", {"subtract", "minus"}},
      {"div", {"divide", "truediv"}},
      {"max", {"maximum"}},
      {"min", {"minimum"}},
      {"pow", {"power"}},
      {"map", {"lambda", "elementwise", "expression", "formula", "mish", "selu", "celu", "hardsigmoid"}},
      {"concat", {"cat", "concatenate"}},
      {"transpose", {"permute"}},
      {"reshape", {"view"}},
      {"add", {"sum", "residual", "skip", "plus"}},
      {"softmax_cross_entropy",
       {"crossentropy", "crossentropyloss", "categoricalcrossentropy", "sparsecategoricalcrossentropy", "softmax"}},
      {"mean_squared_error", {"mse", "mseloss", "meansquarederrorloss", "squarederror", "l2loss"}},
      {"mean_absolute_error", {"mae", "l1", "l1loss", "maeloss", "absoluteerror"}},
      {"huber", {"huberloss", "smoothl1", "smoothl1loss"}},
      {"binary_cross_entropy",
       {"bce", "bceloss", "bcewithlogits", "bcewithlogitsloss", "binarycrossentropywithlogits", "sigmoidcrossentropy"}},
      {"label_smoothing", {"smoothing", "smooth"}},
      {"ignore_index", {"ignore", "ignorelabel", "ignoredlabel", "ignored"}},
      {"learning_rate", {"lr", "eta", "baselr", "stepsize"}},
      {"weight_decay", {"wd", "l2"}},
      {"schedule", {"scheduler", "lrscheduler", "lrschedule", "learningrateschedule", "warmup"}},
      {"clip_norm", {"gradclip", "gradientclip", "gradientclipping", "maxnorm", "maxgradnorm", "clipgradnorm", "clip"}},
      {"average", {"ema", "emadecay", "averaging", "movingaverage", "swa", "polyak", "modelema"}},
      {"decay", {"decayon", "nodecay", "weightdecayon", "excludefromweightdecay"}},
      {"accumulate",
       {"accumulation", "gradaccumulation", "gradientaccumulation", "accumulationsteps", "gradaccumsteps", "microbatches"}},
      {"evaluate_every_epochs",
       {"evalevery", "evaluateevery", "validateevery", "validationfreq", "checkvaleverynepoch", "evaluate"}},
      {"keep_best", {"best", "bestmodel", "savebest", "savebestonly", "savebestmodel"}},
      {"stop_after_evaluations_without_gain", {"earlystop", "earlystopping", "earlystoppingpatience", "patience"}},
      {"cosine", {"cosineannealing", "cosineannealinglr", "cosinedecay"}},
      {"step", {"multistep", "multisteplr", "steplr", "piecewise"}},
      {"one_cycle", {"onecyclelr", "cyclic", "superconvergence"}},
      {"polynomial", {"poly", "polynomiallr", "polynomialdecay"}},
      {"plateau", {"onplateau", "reduceonplateau", "reducelronplateau"}},
      {"warmup_steps", {"warmup", "warmupiterations"}},
      {"final", {"etamin", "minlr", "endlr", "finallr", "endfactor"}},
      {"rise", {"pctstart", "warmupfraction"}},
      {"watch", {"monitor", "metric"}},
      {"factor", {"gamma", "decayfactor"}},
      {"batch", {"batchsize", "bs", "globalbatchsize"}},
      {"epochs", {"numepochs", "nepochs", "maxepochs"}},
      {"max_steps", {"steps", "numsteps", "iterations", "maxiter", "maxiterations", "trainsteps"}},
      {"optimizer", {"optim", "solver", "lr", "learningrate", "momentum", "weightdecay"}},
      {"bias", {"usebias", "hasbias"}},
      {"f32", {"float", "float32", "fp32", "single"}},
      {"bf16", {"bfloat16", "bfloat", "amp", "mixed"}},
      {"f64", {"double", "float64", "fp64"}},
      {"dtype", {"precision", "datatype"}},
      {"fashion_mnist", {"fashion"}},
      {"cifar10", {"cifar"}},
      {"synthetic", {"random", "fake", "dummy"}},
      {"folder", {"imagefolder", "images", "pictures"}},
      {"tokens", {"text", "tokenids", "lm"}},
      {"type", {"dtype"}},
      {"npy", {"numpy", "array", "arrays"}},
      {"images", {"x", "inputs", "features"}},
      {"labels", {"y", "targets"}},
      {"test_images", {"xtest", "valimages", "validationimages"}},
      {"test_labels", {"ytest", "vallabels", "validationlabels"}},
      {"normalize", {"normalise", "normalization", "standardize"}},
      {"augment", {"augmentation", "transform", "transforms"}},
      {"std", {"deviation", "stddev", "sigma"}},
      {"flip", {"hflip", "horizontalflip", "randomhorizontalflip", "mirror"}},
      {"crop_padding", {"crop", "randomcrop", "padding"}},
      {"path", {"root", "folder", "dir", "directory", "file"}},
      {"samples", {"numsamples", "count"}},
      {"cuda", {"gpu", "nvidia"}},
      {"cpu", {"x86", "host"}},
      {"index", {"device", "deviceid", "gpu", "gpuindex", "ordinal", "id"}},
      {"threads", {"numthreads", "nthreads", "workers", "numworkers"}},
      {"cores", {"cpus", "affinity", "cpuset"}},
      {"memory_bytes", {"memory", "ram", "maxmemory", "memorylimit"}},
      {"host", {"hostname", "node", "address"}},
      {"isa", {"arch", "simd", "instructionset"}},
      {"library", {"backend", "lib", "kernels"}},
      {"onednn", {"dnnl", "mkldnn", "mkl"}},
      {"avx512_core", {"avx512", "avx512f", "avx512bw"}},
      {"avx512_core_vnni", {"avx512vnni"}},
      {"avx512_core_bf16", {"avx512bf16", "amx", "avx512coreamx", "avx512fp16"}},
      {"sse41", {"sse", "sse4", "sse42"}},
      {"generic", {"portable", "baseline", "neon", "aarch64", "arm64"}},
      {"axes", {"meshshape", "dimensions", "dimnames"}},
      {"devices", {"ranks", "nodes", "workers"}},
      {"size", {"shape", "length", "extent"}},
      {"split", {"shard", "sharding", "shards", "partition", "dims", "rules"}},
      {"place", {"placement", "devicemap"}},
      {"parts", {"ratio", "ratios", "tensorsplit"}},
      {"shares", {"weights", "ratio", "ratios", "fractions"}},
      {"profile", {"auto", "measured"}},
      {"even", {"equal", "uniform"}}};
  return table;
}

// A word that motley's lists have -> words of other systems, or of later versions of motley, for things that this version does not
// have.
const std::map<std::string, Words>& not_built() {
  static const std::map<std::string, Words> table{
      {"relu", {"leakyrelu", "prelu", "selu", "celu", "mish", "hardsigmoid", "softmax"}},
      {"conv2d",
       {"logsoftmax", "identity", "instancenorm", "instancenorm2d", "dropout2d", "conv1d", "conv3d", "depthwiseconv2d",
        "separableconv2d", "embedding", "lstm", "gru", "rnn", "parameter"}},
      {"window", {"paddingmode"}},
      {"sgd", {"rmsprop", "adagrad", "adadelta", "lars", "lion", "muon"}},
      {"momentum", {"beta1", "beta2", "betas", "dampening", "epsilon", "eps"}},
      {"softmax_cross_entropy", {"nllloss", "logsoftmax", "hinge", "kldiv", "ctc", "focal", "dice"}},
      {"over", {"posweight", "classweights", "weight", "reduction"}},
      {"f32", {"f16", "fp16", "float16", "half", "fp8", "int8"}},
      {"synthetic", {"imagenet", "npz", "csv", "tfrecord", "cifar100", "svhn"}},
      {"flip", {"rotate", "rotation", "colorjitter", "cutout", "mixup", "cutmix", "randaugment", "autoaugment", "resize", "scale"}},
      {"optimizer", {"rebalance"}},
      {"cuda", {"rocm", "hip", "amd", "xpu", "sycl", "metal", "mps", "opencl", "vulkan", "tpu", "npu"}},
      {"generic", {"sve", "rvv"}}};
  return table;
}

bool holds(const Words& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

}  // namespace

std::optional<ForeignWord> foreign_word(const std::string& wrong, const std::vector<std::string>& right) {
  const std::string word = bare(wrong);
  if (word.empty() || word.size() > 40) return std::nullopt;
  for (const std::string& one : right)
    if (bare(one) == word) return ForeignWord{one};
  for (const std::string& one : right)
    if (const auto found = others().find(one); found != others().end() && holds(found->second, word)) return ForeignWord{one};
  for (const std::string& one : right)
    if (const auto found = not_built().find(one); found != not_built().end() && holds(found->second, word)) return ForeignWord{};
  return std::nullopt;
}

}  // namespace motley
