package quorum_test

import (
	"fmt"
	"strconv"

	"github.com/treequorum/dmutex/quorum"
)

// Fifteen members, named from 1 as in the article.
func ExampleTree_Draw() {
	tree, err := quorum.New(15, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(tree.Draw(func(member int) string { return strconv.Itoa(member + 1) }))
	// Output:
	//               8
	//       .-------+-------.
	//       4               12
	//   .---+---.       .---+----.
	//   2       6       10       14
	// .-+-.   .-+-.   .-+-.    .-+--.
	// 1   3   5   7   9   11   13   15
}

// The member that sorts third asks its path; when its parent fails, both children
// of that one stand in.
func ExampleTree_Select() {
	tree, err := quorum.New(7, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	up, self := quorum.All(7), 2
	fmt.Println(tree.Select(up, self, nil))
	fmt.Println(tree.Select(up.Without(1), self, nil))
	fmt.Println(tree.Select(quorum.NewSet(1, 2, 4), self, nil))
	// Output:
	// {1,2,3} true
	// {0,2,3} true
	// {} false
}

// A client in no place of the tree asks the nearest quorum. Costs are round trips,
// in one unit.
func ExampleTree_Select_client() {
	tree, err := quorum.New(3, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	roundTrip := []int64{80, 20, 35}
	fmt.Println(tree.Select(quorum.All(3), -1, roundTrip))
	// Output: {1,2} true
}

func ExampleTree_Contains() {
	tree, err := quorum.New(7, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tree.Contains(quorum.NewSet(0, 1, 3)))    // a path
	fmt.Println(tree.Contains(quorum.NewSet(2, 4, 5, 6))) // a majority that misses it
	// Output:
	// true
	// false
}

// Consent that counts until a time of its own at each member: a quorum's counts
// until 40, with members 0 and 1.
func ExampleTree_Bottleneck() {
	tree, err := quorum.New(3, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tree.Bottleneck([]int64{40, 60, 10}))
	// Output: 40
}

func ExampleRotation() {
	for _, lock := range []string{"dns/example.com", "nightly"} {
		tree, err := quorum.New(7, quorum.Rotation(lock, 7))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: root %d\n", lock, tree.Root())
	}
	// Output:
	// dns/example.com: root 3
	// nightly: root 6
}

func ExampleMajority() {
	fmt.Println(quorum.Majority(7), quorum.Majority(8))
	// Output: 4 5
}

func ExampleSet() {
	up := quorum.All(5).Without(3)
	granted := quorum.NewSet(1, 3)
	fmt.Println(up, granted.Intersect(up), granted.Minus(up).Len())
	for member := range granted.All() {
		fmt.Println(member)
	}
	// Output:
	// {0,1,2,4} {1} 1
	// 1
	// 3
}
