// The configurations that are compiled, once for each dtype, with and without a gate: those that won for some
// shape of bench/cuda/NOTES.md, and for batches between them.
#pragma once

// clang-format off
// rows, width, ping-pong
#define EP_TILE_CONFIGS(X) \
  X(128, 192, true) X(128, 128, true) X(128, 224, false) X(128, 256, false) X(128, 176, false) X(128, 192, false) X(128, 144, false)

// rows, width of the whole MLP's tiles, in ping-pong
#define EP_MLP_TILES(X) X(128, 128) X(128, 192)

// weight rows, tokens, split of K, blocks per multiprocessor
#define EP_SKINNY_CONFIGS(X)                                                                        \
  X(64, 16, 1, 2) X(64, 16, 2, 2) X(64, 16, 3, 2) X(64, 16, 5, 1) X(128, 16, 1, 2) X(256, 16, 1, 1) \
  X(64, 32, 1, 2) X(64, 32, 2, 2) X(64, 32, 3, 2) X(64, 32, 5, 1) X(128, 32, 1, 2)                  \
  X(64, 64, 1, 1) X(64, 64, 2, 1) X(64, 64, 3, 1) X(64, 64, 5, 1) X(128, 64, 1, 2) X(256, 64, 1, 1) \
  X(64, 128, 1, 1) X(64, 128, 2, 1) X(64, 128, 3, 1) X(64, 152, 1, 1) X(192, 80, 1, 1)              \
  X(128, 96, 1, 1) X(128, 128, 1, 1) X(128, 128, 2, 1) X(128, 176, 1, 1)

// tokens, weight rows: 128 in ping-pong
#define EP_SWAP_CONFIGS(X) \
  X(104, 256) X(128, 256) X(152, 256) X(176, 256) X(208, 256) X(152, 128) X(176, 128) X(208, 128)

// warps per output
#define EP_ROW_DOT_CONFIGS(X) X(1) X(2) X(4) X(8)
// The one configuration of row_mma: 8 warps share the K of 32 weight rows for 8 tokens.
inline constexpr int kRowMmaTokens = 8, kRowMmaRows = 32, kRowMmaWarps = 8;
// clang-format on
