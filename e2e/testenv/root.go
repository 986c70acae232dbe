package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// module is the path of the module whose checkout Root looks for.
const module = "github.com/vidra-operator/vidra"

// Root returns the absolute path of the checkout that the working directory is
// in: the nearest parent whose go.mod is that of this module. `go test` runs in
// the folder of the package, so it works in tests too.
func Root() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		path, err := modulePath(filepath.Join(dir, "go.mod"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if path == module {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of %s: change to one and try again", wd, module)
		}
	}
}

// modulePath returns the module path in a go.mod file.
func modulePath(goMod string) (string, error) {
	f, err := os.Open(goMod)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "module" {
			return fields[1], nil
		}
	}
	return "", lines.Err()
}
