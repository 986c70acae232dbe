package testenv

import (
	"context"
	"flag"
	"fmt"
	"os"
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
