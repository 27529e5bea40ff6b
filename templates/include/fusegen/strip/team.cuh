#pragma once
// Rows that lie side by side: which threads own a strip of neighbouring rows.

namespace fusegen {

// kAcross threads of a block, side by side, have kWidth neighbouring rows each. The block's others, and those of the
// strip's other blocks, go down the columns with them: these are the threads of a row.
template <int kThreadsOfBlock, int kBlocksOfStrip, int kThreadsAcross, int kRowsOfThread>
struct Strip {
    static constexpr int kThreads = kThreadsOfBlock, kBlocks = kBlocksOfStrip;
    static constexpr int kAcross = kThreadsAcross, kWidth = kRowsOfThread;
    static constexpr int kRows = kAcross * kWidth;    // of the strip
    static constexpr int kDown = kThreads / kAcross;  // threads of a block that share rows
    static constexpr int kPiece = kAcross < 32 ? 32 : kAcross;  // threads that have one state of a row each, then
    static constexpr int kPieces = kThreads / kPiece;           // states of a row that a block has
    static constexpr bool kAlone = kDown * kBlocks == 1;        // is a row a thread's own?
    // Lanes that merge the states of a row.
    static constexpr int kMergers = kThreads > 32 * kRows ? 32 : kThreads > kRows ? kThreads / kRows : 1;

    // Of a row: from one vector of a thread to its next, in columns.
    static __device__ __forceinline__ constexpr int threads() { return kDown * kBlocks; }
};

}  // namespace fusegen
