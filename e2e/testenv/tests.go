package testenv

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// parallel is how many tests run at a time unless -parallel says otherwise: they wait
// for the API server more than they compute.
const parallel = "8"

// ParseFlags parses the flags of a test binary, for a TestMain.
func ParseFlags() {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", parallel) // it exists, and takes a number
	}
}

// given counts the names that UniqueName has made. In a cluster that runs already, it begins
// anywhere: the Events about the objects of an earlier run stay for an hour.
var given atomic.Int64

// UniqueName makes a name that shows which test it belongs to, from that of the test. It
// is a valid name of a namespace, also with some 20 characters behind it. It may be called
// from several goroutines.
func UniqueName(test string) string {
	const most = 38 // a namespace has up to 63, with what tests append
	clean := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}
	name := strings.Map(clean, strings.ToLower(strings.TrimPrefix(test, "Test")))
	return fmt.Sprintf("%s-%d", strings.Trim(name[:min(len(name), most)], "-"), given.Add(1))
}

// RunTests sets up what tests share, runs them (m is a *testing.M), and stops it, also
// if it was set up in part. It returns the exit code of the process.
func RunTests(m interface{ Run() int }, setUp func(context.Context) error, stop func() error) (code int) {
	defer func() {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping what the tests share:", err)
			code = 1
		}
	}()
	if err := setUp(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "setting up what the tests share:", err)
		return 1
	}
	return m.Run()
}
