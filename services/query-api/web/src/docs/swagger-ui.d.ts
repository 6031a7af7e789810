declare module 'swagger-ui-dist/swagger-ui-es-bundle.js' {
  export interface SwaggerRequest {
    url: string;
    headers: Record<string, string>;
  }
  export interface SwaggerOptions {
    domNode: HTMLElement;
    url: string;
    deepLinking: boolean;
    validatorUrl: null;
    showMutatedRequest: boolean;
    requestInterceptor: (request: SwaggerRequest) => SwaggerRequest;
  }
  export default function SwaggerUI(options: SwaggerOptions): unknown;
}
