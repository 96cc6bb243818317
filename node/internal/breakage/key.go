package breakage

// Key is what methods of the core ask for that only tests below node may call: no
// other package can import this one, and so make a Key.
type Key struct{}
