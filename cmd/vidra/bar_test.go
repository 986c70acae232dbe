package main

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/vidra-operator/vidra/pkg/terminal"
)

// openTerminal returns both ends of a new terminal: of its user, and of a program.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if os.IsNotExist(err) {
		t.Skip("this machine has no terminals")
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = user.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = program.Close() })
	return user, program
}

func TestBar(t *testing.T) {
	user, program := openTerminal(t)
	require.NoError(t, unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	b := newBar(&terminal.Writer{Out: program})
	require.NotNil(t, b)
	b.set("parts", 1, 4)
	shown := make([]byte, 4096)
	n, err := user.Read(shown)
	require.NoError(t, err)
	require.Contains(t, string(shown[:n]), "parts  25%")
	require.Nil(t, newBar(&terminal.Writer{Out: &bytes.Buffer{}}), "a pipe has no bar")
	t.Setenv("TERM", "dumb")
	require.Nil(t, newBar(program), "nor has a terminal that moves no cursor")
}
