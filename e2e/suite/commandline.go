package suite

import (
	"context"
	"fmt"
	"os"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// StartWithCLI starts the control plane with an operator, as the tests of the command line need it. It returns the path of the command
// line.
func (c *Cluster) StartWithCLI(ctx context.Context) (binary string, err error) {
	if binary, err = testenv.BuildCLI(ctx, os.Stderr, Race); err != nil {
		return "", err
	}
	operator, err := BuildOperator(ctx)
	if err != nil {
		return "", err
	}
	if err := c.Start(ctx, testenv.Options{Out: os.Stderr}); err != nil {
		return "", err
	}
	if err := c.Install(ctx); err != nil {
		return "", err
	}
	_, err = c.StartOperator(ctx, testenv.OperatorOptions{Binary: operator})
	return binary, err
}

// Settings is a ConfigMap of a shop.
const Settings = `apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  labels:
    tier: front
data:
  colour: blue
  greeting: hello
`

// Web returns the Deployment of a shop, with a value in its environment that is never shown.
func Web(replicas int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: %d
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: registry.example/web:1
        env:
        - name: PASSWORD
          value: swordfish
`, replicas)
}
