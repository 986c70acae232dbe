package e2e

// claiming is a kind of editableStructure whose fields Kubernetes has since 1.34.
const claiming = "Deployment that claims devices"

// editableStructure are more manifests, for TestStructuralEdits: of objects with unions
// and lists of every kind that the built-in APIs have.
var editableStructure = map[string]string{
	"Deployment of many parts": `
apiVersion: apps/v1
kind: Deployment
metadata: {name: <name>, labels: {app: web, tier: front}, annotations: {example.com/team: web}}
spec:
  replicas: 0
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}
  selector: {matchLabels: {app: <name>}}
  template:
    metadata: {labels: {app: <name>, tier: front}, annotations: {example.com/team: web}}
    spec:
      securityContext: {seccompProfile: {type: RuntimeDefault}}
      imagePullSecrets: [{name: registry}]
      hostAliases: [{ip: 192.0.2.1, hostnames: [a.example.com]}]
      topologySpreadConstraints: [{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, maxSkew: 1}]
      affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchFields: [{key: metadata.name, operator: In, values: [a]}]}}]}}
      volumes:
      - {name: scratch, emptyDir: {}}
      - {name: settings, configMap: {name: settings}}
      - {name: tokens, projected: {sources: [{configMap: {name: settings}}]}}
      - {name: data, persistentVolumeClaim: {claimName: data}}
      initContainers:
      - {name: prepare, image: "registry.invalid/prepare:1"}
      - {name: migrate, image: "registry.invalid/migrate:1"}
      containers:
      - name: web
        image: registry.invalid/web:1
        env: [{name: LOG, value: info}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        envFrom: [{configMapRef: {name: settings}}]
        ports: [{name: http, containerPort: 8080}, {name: dns, containerPort: 53, protocol: UDP}]
        resources: {requests: {cpu: "1"}}
        volumeMounts: [{name: scratch, mountPath: /scratch}]
        livenessProbe: {httpGet: {path: /, port: 8080}}
        readinessProbe: {exec: {command: [ready]}}
        startupProbe: {tcpSocket: {port: 8080}}
        lifecycle: {preStop: {exec: {command: [stop]}}, postStart: {httpGet: {path: /, port: 8080}}}
        securityContext: {capabilities: {drop: [ALL]}}
      - {name: helper, image: "registry.invalid/helper:1"}
`,
	claiming: `
apiVersion: apps/v1
kind: Deployment
metadata: {name: <name>}
spec:
  replicas: 0
  selector: {matchLabels: {app: <name>}}
  template:
    metadata: {labels: {app: <name>}}
    spec:
      resourceClaims: [{name: gpu, resourceClaimName: gpu}]
      containers: [{name: web, image: "registry.invalid/web:1", resources: {claims: [{name: gpu}]}}]
`,
	"Deployment that is recreated": `
apiVersion: apps/v1
kind: Deployment
metadata: {name: <name>}
spec:
  replicas: 0
  strategy: {type: Recreate}
  selector: {matchLabels: {app: <name>}}
  template:
    metadata: {labels: {app: <name>}}
    spec: {containers: [{name: web, image: "registry.invalid/web:1"}]}
`,
	"Deployment without replicas": `
apiVersion: apps/v1
kind: Deployment
metadata: {name: <name>, annotations: {example.com/team: web}}
spec:
  selector: {matchLabels: {app: <name>}}
  template:
    metadata: {labels: {app: <name>}, annotations: {example.com/team: web}}
    spec:
      volumes: [{name: scratch, emptyDir: {}}]
      containers:
      - {name: web, image: "registry.invalid/web:1", env: [{name: LOG, value: info}]}
      - {name: helper, image: "registry.invalid/helper:1"}
`,
	"CustomResourceDefinition with conversion": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.<name>.example.com, labels: {app: web}}
spec:
  group: <name>.example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: none, name: none}}}}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`,
	"StatefulSet of many parts": `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: <name>}
spec:
  replicas: 0
  serviceName: none
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}
  selector: {matchLabels: {app: <name>}}
  template:
    metadata: {labels: {app: <name>}}
    spec:
      containers: [{name: web, image: "registry.invalid/web:1", volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`,
	"Service of many ports": `
apiVersion: v1
kind: Service
metadata: {name: <name>}
spec:
  type: ClusterIP
  selector: {app: <name>}
  ports: [{name: http, port: 80, protocol: TCP}, {name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
`,
	"Service with a node port": `
apiVersion: v1
kind: Service
metadata: {name: <name>}
spec:
  type: NodePort
  selector: {app: <name>}
  ports: [{name: http, port: 80}]
`,
	"Service of another name": `
apiVersion: v1
kind: Service
metadata: {name: <name>}
spec: {type: ExternalName, externalName: a.example.com}
`,
	"Service without affinity": `
apiVersion: v1
kind: Service
metadata: {name: <name>}
spec:
  sessionAffinity: None
  selector: {app: <name>}
  ports: [{port: 80}]
`,
	"Ingress of many parts": `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: <name>, annotations: {example.com/rewrite: /}}
spec:
  ingressClassName: none
  defaultBackend: {service: {name: web, port: {number: 80}}}
  tls: [{hosts: [web.example.com], secretName: web}]
  rules: [{host: <name>.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
`,
	"PodDisruptionBudget by expressions": `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: <name>}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: <name>, tier: front}}}
`,
	"ServiceAccount of many Secrets": `
apiVersion: v1
kind: ServiceAccount
metadata: {name: <name>, labels: {app: web}}
secrets: [{name: a}, {name: b}]
imagePullSecrets: [{name: registry}]
`,
	"ConfigMap with finalizers": `
apiVersion: v1
kind: ConfigMap
metadata: {name: <name>, finalizers: [example.com/a, example.com/b], labels: {app: web}}
data: {greeting: hello}
`,
	"ValidatingAdmissionPolicyBinding": `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: <name>}
spec:
  policyName: none
  validationActions: [Warn]
  paramRef: {name: none, parameterNotFoundAction: Allow}
`,
	"PriorityLevelConfiguration": `
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: <name>}
spec: {type: Limited, limited: {nominalConcurrencyShares: 0, limitResponse: {type: Reject}}}
`,
	"FlowSchema": `
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: <name>}
spec:
  matchingPrecedence: 9999
  priorityLevelConfiguration: {name: catch-all}
  distinguisherMethod: {type: ByUser}
  rules: [{subjects: [{kind: User, user: {name: none.example.com}}], nonResourceRules: [{verbs: [get], nonResourceURLs: [/none]}]}]
`,
	"CustomResourceDefinition without conversion": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.<name>.example.com}
spec:
  group: <name>.example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  conversion: {strategy: None}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`,
	"Gizmo": `
apiVersion: <group>/v1
kind: Gizmo
metadata: {name: <name>}
spec:
  parts: [{name: a, size: 1, tags: [red, green]}, {name: b, size: 2, none: {}, screws: [{id: 1, length: 5}, {id: 2, length: 6}]}]
  ports: [{port: 80, protocol: TCP, note: web}, {port: 53, protocol: UDP}]
  slots: [{row: top, column: 2, note: web}, {row: top, column: 3}]
  tags: [red, green]
  numbers: [1, 2]
  steps: [first, second]
  whole: {a: "1", b: "2"}
  options: {color: red, size: big}
  none: {}
  nullable: {}
  unnamed: []
  unkeyed: []
  source: {git: {url: "https://example.com"}}
  anything: {deep: {x: 1, inner: {z: 2}}, list: [1, 2], text: hello}
`,
}

// structuralKinds is the definition of a Gizmo, which has every kind of list and map that
// a schema can describe, some inside others, and a union.
const structuralKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.<group>}
spec:
  group: <group>
  scope: Namespaced
  names: {plural: gizmos, singular: gizmo, kind: Gizmo, listKind: GizmoList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
          spec:
            type: object
            properties:
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    size: {type: integer}
                    color: {type: string, default: red}
                    tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
                    none: {type: object, additionalProperties: {type: string}}
                    screws:
                      type: array
                      x-kubernetes-list-type: map
                      x-kubernetes-list-map-keys: [id]
                      items:
                        type: object
                        required: [id]
                        properties: {id: {type: integer}, length: {type: integer}}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [port, protocol]
                items:
                  type: object
                  required: [port]
                  properties: {port: {type: integer}, protocol: {type: string, default: TCP}, note: {type: string}}
              slots:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [row, column]
                items:
                  type: object
                  properties: {row: {type: string, default: ""}, column: {type: integer, default: 0}, note: {type: string}}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              numbers: {type: array, x-kubernetes-list-type: set, items: {type: integer}}
              steps: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}
              whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
              options: {type: object, additionalProperties: {type: string}}
              none: {type: object, additionalProperties: {type: string}}
              nullable: {type: object, nullable: true, additionalProperties: {type: string}}
              unnamed: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              unkeyed: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}}}}
              source:
                type: object
                properties:
                  git: {type: object, properties: {url: {type: string}}}
                  bucket: {type: object, properties: {name: {type: string}}}
                x-kubernetes-validations: [{rule: "has(self.git) != has(self.bucket)", message: "exactly one of git and bucket"}]
              anything: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
