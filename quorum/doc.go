// Package quorum is the arithmetic of tree quorums: which sets of members are
// enough to let one requester have a lock, and which of them to ask. It is pure.
// Nothing here blocks, keeps time, logs or talks to anybody, and every value may
// be used by any number of goroutines at once.
//
// # The tree
//
// Members are numbered by the rank of their names in byte order, from 0. They
// are laid out, in order, as a binary search tree. Of 1..15 (index 0..14):
//
//	              8
//	      .-------+-------.
//	      4               12
//	  .---+---.       .---+----.
//	  2       6       10       14
//	.-+-.   .-+-.   .-+-.    .-+--.
//	1   3   5   7   9   11   13   15
//
// Of n nodes the left subtree takes (n-1)/2, rounded up to an odd number when n
// is odd and rounded down when n is even. So an odd number of members gives
// every inner node two children, and 2^k-1 members give the perfect tree. An even
// number leaves one node with a single child.
//
// The root is in more quorums than anybody else. To share that load the list is
// rotated before it is laid out, by another number for each lock: see [Rotation].
//
// # Quorums
//
// A quorum of a leaf is the leaf. A quorum of an inner node v is either v and a
// quorum of one of its children, or a quorum of every one of its children,
// joined; the second is what is left when v cannot be used. A quorum of the tree
// is one of its root, and a set that includes one counts as one. In a perfect
// tree quorums have log2(n+1) to (n+1)/2 members.
//
// # Why two quorums always meet
//
// By induction on the height. Two quorums of a leaf are both that leaf. Take two
// quorums of an inner node v, and suppose that any two quorums of one child meet:
//
//   - Both hold v: they meet in v.
//   - One holds v and a quorum of some child; the other holds a quorum of every
//     child, so of that child too: they meet in that child.
//   - Both hold a quorum of every child: they meet in each of them.
//
// A member gives its consent to one requester at a time, and two quorums share a
// member, so two requesters never have a quorum's consent at once.
//
// The other way round it is tight: of a set and the set of all others exactly
// one includes a quorum. So no quorum can be made smaller, and no other set can
// be allowed besides: it would miss a quorum. In particular a plain majority does
// not do as a stand-in. Of 1..7 the path {4,2,1} and the majority {3,5,6,7} are
// disjoint.
package quorum
